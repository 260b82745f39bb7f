// What Grafana fills in before it asks: variables of the board (all chosen, unless named) and of the time range.

/** duration in seconds, as Prometheus writes it */
const written = (seconds) => `${Math.max(1, Math.round(seconds))}s`;

/** {from, to, step}: seconds; chosen: {variable: value} -> (text) => text */
export function filled(board, {from, to, step, chosen, scrape}) {
  const values = {
    __rate_interval: written(Math.max(step + scrape, 4 * scrape)),
    __interval: written(step),
    __range: written(to - from),
    __range_s: String(Math.round(to - from)),
  };
  for (const variable of board.templating.list) {
    if (variable.type === 'query') {
      values[variable.name] = chosen[variable.name] ?? variable.allValue;
    }
  }
  const pattern = /\$\{(\w+)(?::\w+)*\}|\$(\w+)/g;
  return (text) => text.replace(pattern, (whole, braced, bare) => values[braced ?? bare] ?? whole);
}
