// A stat panel: one big value per series, or one line that says there is none.
import {reduceField, getDisplayValueAlignmentFactors} from '@grafana/data';
import {BigValue, BigValueColorMode, BigValueGraphMode, BigValueJustifyMode, BigValueTextMode, VizRepeater} from '@grafana/ui';
import {lineFrames} from './fields.js';

function values(panel, theme) {
  const calc = panel.options.reduceOptions.calcs[0];
  return lineFrames(panel, theme).map((frame) => {
    const field = frame.fields[1];
    const value = field.display(reduceField({field, reducers: [calc]})[calc]);
    return {...value, title: field.config.displayNameFromDS};
  });
}

export function Stats({panel, width, height, theme}) {
  const found = values(panel, theme);
  const nothing = {text: panel.fieldConfig.defaults.noValue ?? 'No data', numeric: NaN, color: theme.colors.text.secondary};
  const shown = found.length ? found : [nothing];
  return (
    <VizRepeater
      getValues={() => shown}
      getAlignmentFactors={() => getDisplayValueAlignmentFactors(shown.map((display) => ({display})))}
      renderValue={({value, width: w, height: h, count}) => (
        <BigValue
          value={value} count={count} width={w} height={h} theme={theme}
          colorMode={BigValueColorMode[{value: 'Value', background: 'Background', none: 'None'}[panel.options.colorMode]]}
          graphMode={BigValueGraphMode.None}
          justifyMode={BigValueJustifyMode.Auto}
          textMode={BigValueTextMode[{auto: 'Auto', value_and_name: 'ValueAndName', name: 'Name', value: 'Value'}[panel.options.textMode ?? 'auto']]}
        />
      )}
      width={width} height={height} source={shown} renderCounter={0} orientation={panel.options.orientation ?? 'auto'} autoGrid={true}
    />
  );
}
