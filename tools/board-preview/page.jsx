// The page that is photographed: every panel of the board, drawn by Grafana's own components.
import './shims.js';
import {createRoot} from 'react-dom/client';
import {createTheme, renderTextPanelMarkdown} from '@grafana/data';
import {PanelChrome, ThemeContext, GlobalStyles} from '@grafana/ui';
import {Stats} from './stats.jsx';
import {Lines} from './lines.jsx';
import {Rows} from './rows.jsx';

const {board, when, dark, layout} = window.SHOWN;
const theme = createTheme({colors: {mode: dark ? 'dark' : 'light'}});
const KINDS = {stat: Stats, timeseries: Lines, table: Rows};

function place({x, y, w, h}) {
  const column = (layout.width - layout.gap) / 24;
  return {
    position: 'absolute', left: layout.gap + x * column, top: layout.head + y * (layout.cell + layout.gap),
    width: w * column - layout.gap, height: h * (layout.cell + layout.gap) - layout.gap,
  };
}

function Panel({panel}) {
  const {position, left, top, width, height} = place(panel.gridPos);
  const style = {position, left, top, width, height};
  if (panel.type === 'row') {
    return <div style={{...style, font: `500 16px ${theme.typography.fontFamily}`, lineHeight: `${height}px`}}>{panel.collapsed ? '▸' : '▾'} {panel.title}</div>;
  }
  if (panel.type === 'text') {
    return <div className="markdown-html" style={style} dangerouslySetInnerHTML={{__html: renderTextPanelMarkdown(panel.options.content)}} />;
  }
  const Kind = KINDS[panel.type];
  return (
    <div style={style}>
      <PanelChrome title={panel.title} description={panel.description} width={width} height={height} padding="md">
        {(inside, tall) => <Kind panel={panel} width={inside} height={tall} theme={theme} when={when} />}
      </PanelChrome>
    </div>
  );
}

function Page() {
  const shown = board.templating.list.filter(({hide}) => !hide);
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div style={{position: 'relative', width: layout.width, height: window.innerHeight, background: theme.colors.background.canvas, color: theme.colors.text.primary, fontFamily: theme.typography.fontFamily, fontSize: 14}}>
        <div style={{position: 'absolute', left: 12, top: 8, fontSize: 20, fontWeight: 500}}>{board.title}</div>
        <div style={{position: 'absolute', left: 12, top: 44, display: 'flex', gap: 16, width: layout.width - 24, overflow: 'hidden'}}>
          {shown.map(({name, label}) => (
            <span key={name} style={{fontSize: 12, whiteSpace: 'nowrap'}}>
              <span style={{padding: '4px 8px', background: theme.colors.background.secondary}}>{label}</span>
              <span style={{padding: '4px 8px', border: `1px solid ${theme.colors.border.medium}`}}>{when.chosen[name] ?? (name === 'datasource' ? 'Prometheus' : 'All')}</span>
            </span>
          ))}
        </div>
        {board.panels.map((panel) => <Panel key={panel.id} panel={panel} />)}
      </div>
    </ThemeContext.Provider>
  );
}

createRoot(document.getElementById('root')).render(<Page />);
