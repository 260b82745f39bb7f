"""The command that alerts print: the source, the time, the cluster, the namespace, the model and the pod of the
alert."""

from __future__ import annotations

OPTIONS = (("cluster", "cluster"), ("namespace", "namespace"), ("model", "model_name"), ("pod", "pod"))
"""Options of `inferdoc diagnose` and the labels that fill them in."""
NOW = '{{ query "time()" | first | value | printf "%.0f" }}'
"""When the rule was evaluated: templates of Prometheus have no variable for the time (prometheus.io/docs/prometheus/
latest/configuration/template_reference). Half an hour before it, where --around begins, no `for` has begun yet."""
SERVER = "{{ $externalURL }}"
"""The address of the server that evaluated the rule, as its --web.external-url gives it; vmalert: -external.url."""

QUOTED = r"""{{ reReplaceAll "'" "'\\''" . }}"""
"""A label between single quotes of a shell: whoever pastes the command runs nothing that stands in a label."""


def diagnose_command(by: tuple[str, ...]) -> str:
    """The command as an annotation template. by: the labels that the alert's series keep; an empty one is left out."""
    names = [
        f"{{{{ with $labels.{label} }}}} --{option} '{QUOTED}'{{{{ end }}}}" for option, label in OPTIONS if label in by
    ]
    return f"inferdoc diagnose --prometheus '{SERVER}' --around {NOW}{''.join(names)}"
