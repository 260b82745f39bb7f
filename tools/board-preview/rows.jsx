// A table panel: its queries merged, its columns named and ordered as the board says.
import {useEffect, useState} from 'react';
import {FieldType, standardTransformers, standardTransformersRegistry, toDataFrame, transformDataFrame} from '@grafana/data';
import {TableNG} from '@grafana/ui/unstable';
import {configured} from './fields.js';

standardTransformersRegistry.setInit(() =>
  [standardTransformers.mergeTransformer, standardTransformers.organizeFieldsTransformer]
    .map((each) => ({id: each.id, name: each.name, transformation: async () => each})));

const TYPES = {time: FieldType.time, string: FieldType.string, number: FieldType.number};

/** links as Grafana resolves them, so that cells with one are drawn as links */
function linked(field) {
  field.getLinks = () => (field.config.links ?? []).map(({title, url}) => ({title, href: url, target: '_self', origin: field}));
}

function frames(panel) {
  return panel.answers.tables
    .filter(({columns}) => columns[0].values.length)
    .map(({refId, columns}) => toDataFrame({refId, fields: columns.map(({name, type, values}) => ({name, type: TYPES[type], values, config: {}}))}));
}

export function Rows({panel, width, height, theme}) {
  const [shown, show] = useState(null);
  useEffect(() => {
    const going = transformDataFrame(panel.transformations ?? [], frames(panel)).subscribe((found) => {
      const shownFrames = configured(found, panel, theme);
      shownFrames.forEach((frame) => frame.fields.forEach(linked));
      show(shownFrames);
    });
    return () => going.unsubscribe();
  }, []);
  if (!shown?.[0]?.length) {
    const text = panel.fieldConfig.defaults.noValue ?? 'No data';
    return <div style={{width, height, display: 'grid', placeItems: 'center', color: theme.colors.text.secondary}}>{text}</div>;
  }
  return <TableNG data={shown[0]} width={width} height={height} initialSortBy={panel.options.sortBy} timeRange={null} structureRev={1} />;
}
