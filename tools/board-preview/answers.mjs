// Asks Prometheus what the panels of a board ask, and hands the answers on as plain data frames.

async function ask(url, path, form) {
  const answer = await fetch(`${url}/api/v1/${path}`, {method: 'POST', body: new URLSearchParams(form)});
  const body = await answer.json();
  if (body.status !== 'success') throw new Error(`${form.query}: ${body.error}`);
  return body.data.result;
}

const label = (legend, labels) => legend.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, name) => labels[name] ?? '').trim();

function series(target, result) {
  return result.map(({metric, values}) => ({
    refId: target.refId,
    name: label(target.legendFormat ?? '', metric) || Object.entries(metric).map((each) => each.join('=')).join(', '),
    labels: metric,
    times: values.map(([at]) => at * 1000),
    values: values.map(([, value]) => Number(value)),
  }));
}

/** every timestamp of the range, so that gaps stay gaps */
function gapless(frames, from, to, step) {
  const times = [];
  for (let at = from; at <= to; at += step) times.push(Math.round(at * 1000));
  return frames.map((frame) => {
    const known = new Map(frame.times.map((at, place) => [Math.round(at), frame.values[place]]));
    return {...frame, times, values: times.map((at) => known.get(at) ?? null)};
  });
}

function table(target, result, alone) {
  const columns = [...new Set(result.flatMap(({metric}) => Object.keys(metric)))].sort();
  return {
    refId: target.refId,
    columns: [
      {name: 'Time', type: 'time', values: result.map(({value}) => value[0] * 1000)},
      ...columns.map((name) => ({name, type: 'string', values: result.map(({metric}) => metric[name] ?? '')})),
      {name: alone ? "Value" : `Value #${target.refId}`, type: 'number', values: result.map(({value}) => Number(value[1]))},
    ],
  };
}

/** panel -> {series: [...], tables: [...], errors: [...]} */
export async function answers(url, panel, fill, {from, to, step}) {
  const found = {series: [], tables: [], errors: []};
  for (const target of panel.targets ?? []) {
    const query = fill(target.expr);
    try {
      if (target.format === 'table') {
        found.tables.push(table(target, await ask(url, "query", {query, time: to}), panel.targets.length === 1));
      } else if (target.instant) {
        const result = await ask(url, 'query', {query, time: to});
        found.series.push(...series(target, result.map(({metric, value}) => ({metric, values: [value]}))));
      } else {
        const result = await ask(url, 'query_range', {query, start: from, end: to, step});
        found.series.push(...gapless(series(target, result), from, to, step));
      }
    } catch (error) {
      found.errors.push(String(error.message));
    }
  }
  return found;
}
