// Grafana's packages read a few settings of the page that a server would have put there.
window.grafanaBootData = {settings: {featureToggles: {}}, user: {}, navTree: []};
window.__grafana_public_path__ = '';
