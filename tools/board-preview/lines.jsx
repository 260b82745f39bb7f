// A time series panel.
import {dateTime} from '@grafana/data';
import {TimeSeries} from '@grafana/ui';
import {lineFrames} from './fields.js';

export function Lines({panel, width, height, theme, when}) {
  const frames = lineFrames(panel, theme);
  if (!frames.length) {
    return <div style={{width, height, display: 'grid', placeItems: 'center', color: theme.colors.text.secondary}}>No data</div>;
  }
  const from = dateTime(when.from * 1000);
  const to = dateTime(when.to * 1000);
  return (
    <TimeSeries
      frames={frames} width={width} height={height} timeZone="utc" timeRange={{from, to, raw: {from, to}}}
      legend={panel.options.legend} structureRev={1} options={panel.options} replaceVariables={(text) => text}
    />
  );
}
