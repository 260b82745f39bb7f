// Draws a board to PNG: node preview.mjs --board FILE --prometheus URL --to UNIX --range SECONDS --out FILE.png [--var name=value]
// --width: of the screen; below 768 px panels stand in one column, as in Grafana. --folded: collapsed rows stay collapsed
import {spawnSync} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';
import esbuild from 'esbuild';
import {answers} from './answers.mjs';
import {filled} from './variables.mjs';

const PHONE = 768;
const CELL = 30;
const GAP = 8;
const HEAD = 84;
const SCRAPE = 15;
const POINTS = 240;
const here = dirname(fileURLToPath(import.meta.url));

const {values: given} = parseArgs({
  options: {
    board: {type: 'string', multiple: true},
    prometheus: {type: 'string'},
    to: {type: 'string'},
    range: {type: 'string', default: '1200'},
    out: {type: 'string'},
    var: {type: 'string', multiple: true, default: []},
    dark: {type: 'boolean', default: false},
    width: {type: 'string', default: '1360'},
    suffix: {type: 'string', default: ''},
    folded: {type: 'boolean', default: false},
  },
});

/** one column, as Grafana shows a board on a phone */
function stacked(panels) {
  let y = 0;
  return panels.map((panel) => {
    const gridPos = {...panel.gridPos, x: 0, y, w: 24};
    y += gridPos.h;
    return {...panel, gridPos};
  });
}

/** rows that Grafana shows folded are drawn open: the picture is to show what they hold */
function opened(board) {
  if (given.folded) return board.panels;
  const found = [];
  let lower = 0;
  for (const panel of board.panels) {
    found.push({...panel, panels: [], gridPos: {...panel.gridPos, y: panel.gridPos.y + lower}});
    for (const inner of panel.panels ?? []) found.push({...inner, gridPos: {...inner.gridPos, y: inner.gridPos.y + lower}});
    if (panel.panels?.length) {
      const bottom = Math.max(...panel.panels.map((each) => each.gridPos.y + each.gridPos.h));
      lower += bottom - panel.gridPos.y - panel.gridPos.h;
    }
  }
  return found;
}

async function data(board) {
  const to = Number(given.to);
  const range = Number(given.range);
  const step = Math.max(SCRAPE, Math.ceil(range / POINTS));
  const when = {from: to - range, to, step, scrape: SCRAPE, chosen: Object.fromEntries(given.var.map((each) => each.split(/=(.*)/s)))};
  const fill = filled(board, when);
  const panels = [];
  const shown = Number(given.width) < PHONE ? stacked(opened(board)) : opened(board);
  for (const panel of shown) panels.push({...panel, answers: await answers(given.prometheus, panel, fill, when)});
  return {board: {...board, panels}, when, dark: given.dark};
}

function draw(shown, out) {
  const folder = mkdtempSync(join(tmpdir(), 'board-preview-'));
  try {
    const bottom = Math.max(...shown.board.panels.map(({gridPos}) => gridPos.y + gridPos.h));
    const height = bottom * (CELL + GAP) + HEAD;
    const script = join(folder, 'page.js');
    esbuild.buildSync({
      entryPoints: [join(here, 'page.jsx')], bundle: true, outfile: script, format: 'iife', jsx: 'automatic', logLevel: 'error',
      define: {'process.env.NODE_ENV': '"production"', global: 'window', 'process.env.TZ': '"UTC"'},
      loader: {'.svg': 'dataurl', '.woff2': 'dataurl', '.ttf': 'dataurl', '.png': 'dataurl'}, minify: true,
    });
    const text = JSON.stringify({...shown, layout: {width: Number(given.width), cell: CELL, gap: GAP, head: HEAD}}).replaceAll('<', '\\u003c');
    const html = join(folder, 'page.html');
    writeFileSync(html, `<!doctype html><meta charset=utf-8><link rel=stylesheet href=page.css><body style="margin:0"><div id=root></div><script>window.SHOWN=${text}</script><script src=page.js></script>`);
    const done = spawnSync('chromium', [
      '--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--allow-file-access-from-files', `--user-data-dir=${folder}/profile`,
      `--window-size=${given.width},${height}`, '--virtual-time-budget=15000', '--enable-logging=stderr', `--screenshot=${out}`, `file://${html}`,
    ], {encoding: 'utf8', env: {...process.env, TZ: 'UTC'}});
    for (const line of done.stderr.split('\n').filter((each) => each.includes('CONSOLE'))) console.error(line.slice(0, 600));
    if (done.status !== 0) throw new Error(done.stderr.slice(-800));
  } finally {
    rmSync(folder, {recursive: true, force: true});
  }
}

for (const file of given.board) {
  const shown = await data(JSON.parse(readFileSync(file, 'utf8')));
  const out = given.out.endsWith('.png') ? given.out : join(given.out, file.split('/').pop().replace('.json', `${given.suffix}.png`));
  for (const panel of shown.board.panels) {
    const {series, tables, errors} = panel.answers;
    errors.forEach((each) => console.error(`${panel.title}: ${each}`));
    if (panel.targets && !series.length && !tables.some(({columns}) => columns[0].values.length)) console.error(`${shown.board.title}: ${panel.title}: no data`);
  }
  draw(shown, out);
  console.log(out);
}
