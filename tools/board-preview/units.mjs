// Prints the ids of all units that Grafana knows: node units.mjs > ../../inferdoc/generate/grafana-units.txt
import {createRequire} from 'node:module';

Object.defineProperty(globalThis, 'navigator', {value: {language: 'en-US', languages: ['en-US']}, configurable: true});
const require = createRequire(import.meta.url);
const {getValueFormats} = require('@grafana/data');
const {version} = require('@grafana/data/package.json');

const ids = getValueFormats().flatMap(({submenu}) => submenu.map(({value}) => value));
console.log(`# Unit ids of @grafana/data ${version} (getValueFormats), Apache-2.0; written by tools/board-preview/units.mjs`);
console.log([...new Set(ids)].sort().join('\n'));
