"""What the declarations become for other programs: alert rules with their unit tests, Alertmanager routes, dashboards,
and the `Fires when` part of the runbooks."""
