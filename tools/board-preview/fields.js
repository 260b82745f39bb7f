// Fields as Grafana's data layer has them: configuration of the panel, its overrides, and how a value is written.
import {FieldType, getDisplayProcessor, getFieldDisplayName, toDataFrame} from '@grafana/data';

function put(config, id, value) {
  if (id.startsWith('custom.')) {
    config.custom = {...config.custom};
    const [first, ...rest] = id.slice('custom.'.length).split('.');
    config.custom[first] = rest.length ? {...config.custom[first], [rest.join('.')]: value} : value;
  } else {
    config[id] = value;
  }
}

function fits({id, options}, name, refId, type) {
  if (id === 'byType') return type === options;
  if (id === 'byName') return name === options;
  if (id === 'byFrameRefID') return refId === options;
  if (id === 'byRegexp') return new RegExp(options.replace(/^\/|\/$/g, '')).test(name);
  return false;
}

/** frames with the panel's configuration on every field that is no time */
export function configured(frames, panel, theme) {
  for (const frame of frames) {
    for (const field of frame.fields) {
      const name = field.config.displayName ?? field.config.displayNameFromDS ?? field.name;
      const config = {...structuredClone(panel.fieldConfig.defaults), ...field.config};
      for (const {matcher, properties} of panel.fieldConfig.overrides ?? []) {
        if (fits(matcher, name, frame.refId, field.type)) properties.forEach(({id, value}) => put(config, id, value));
      }
      if (field.type !== FieldType.time) field.config = config;
      if (config.thresholds) config.thresholds.steps[0].value = -Infinity;
      field.display = getDisplayProcessor({field, theme, timeZone: 'utc'});
      field.state = {...field.state, displayName: undefined};
    }
  }
  frames.forEach((frame) => frame.fields.forEach((field) => getFieldDisplayName(field, frame, frames)));
  return frames;
}

/** names of lines as the panel's transformations write them */
function renamed(panel) {
  const found = (panel.transformations ?? []).filter(({id}) => id === 'renameByRegex');
  return (name) => found.reduce((text, {options}) => text.replace(new RegExp(options.regex), options.renamePattern), name);
}

/** one frame per series */
export function lineFrames(panel, theme) {
  const frames = panel.answers.series.map(({refId, name, labels, times, values}) =>
    toDataFrame({
      refId,
      fields: [
        {name: 'Time', type: FieldType.time, values: times, config: {}},
        {name: 'Value', type: FieldType.number, values, labels, config: {displayNameFromDS: renamed(panel)(name)}},
      ],
    }));
  frames.forEach((frame, place) => {
    frame.fields[1].state = {seriesIndex: place};
  });
  return configured(frames, panel, theme).map((frame, place) => {
    frame.fields[1].state = {...frame.fields[1].state, seriesIndex: place};
    return frame;
  });
}
