{{/* The release under one name: `inferdoc` in most, and in the kustomize base. */}}
{{- define "inferdoc.name" -}}
{{- if contains "inferdoc" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-inferdoc" (.Release.Name | trunc 31 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "inferdoc.selector" -}}
app.kubernetes.io/name: inferdoc
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "inferdoc.labels" -}}
{{ include "inferdoc.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "inferdoc.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Where people reach serve: [serve] public_url, else the ingress. */}}
{{- define "inferdoc.publicUrl" -}}
{{- $given := dig "serve" "public_url" "" .Values.config -}}
{{- if $given }}{{ $given }}
{{- else if .Values.ingress.enabled }}{{ ternary "https" "http" (ne .Values.ingress.tlsSecretName "") }}://{{ required "ingress.host: missing" .Values.ingress.host }}
{{- end -}}
{{- end }}

{{/* Where the runbook of an alert is, by its id; empty without an address. */}}
{{- define "inferdoc.runbookBase" -}}
{{- $url := include "inferdoc.publicUrl" . -}}
{{- dig "links" "runbook_base" (ternary (printf "%s/runbooks" ($url | trimSuffix "/")) "" (ne $url "")) .Values.config -}}
{{- end }}

{{/* inferdoc.toml: the user's values, with what follows from the chart's own objects. */}}
{{- define "inferdoc.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $serve := $config.serve | default dict -}}
{{- $ours := dict "listen" (printf "0.0.0.0:%v" .Values.serve.port) "record" "/var/lib/inferdoc/incidents.db" "bearer_token_file" (printf "/etc/inferdoc/auth/%s" .Values.auth.key) -}}
{{- $url := include "inferdoc.publicUrl" . -}}
{{- if $url -}}
{{- $_ := set $ours "public_url" $url -}}
{{- end -}}
{{- $_ := set $config "serve" (mergeOverwrite $serve $ours) -}}
{{- if .Values.catalogue -}}
{{- $_ := set $config "catalogue" (append ($config.catalogue | default list) "/etc/inferdoc/catalogue") -}}
{{- end -}}
{{ toToml $config }}
{{- end }}

{{- define "inferdoc.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "inferdoc.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Where the files of all pods lie. */}}
{{- define "inferdoc.mounts" -}}
- {name: config, mountPath: /etc/inferdoc/inferdoc.toml, subPath: inferdoc.toml, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if .Values.catalogue }}
- {name: catalogue, mountPath: /etc/inferdoc/catalogue, readOnly: true}
{{- end }}
{{- if .Values.secrets.secretName }}
- {name: secrets, mountPath: /etc/inferdoc/secrets, readOnly: true}
{{- end }}
{{- end }}

{{- define "inferdoc.volumes" -}}
- name: config
  configMap: {name: {{ include "inferdoc.name" . }}}
- name: tmp
  emptyDir: {sizeLimit: 256Mi}
{{- if .Values.catalogue }}
- name: catalogue
  configMap:
    name: {{ include "inferdoc.name" . }}-catalogue
    items:
      {{- range $path, $_ := .Values.catalogue }}
      - {key: {{ $path | replace "/" "_" | quote }}, path: {{ $path | quote }}}
      {{- end }}
{{- end }}
{{- if .Values.secrets.secretName }}
- name: secrets
  secret: {secretName: {{ .Values.secrets.secretName | quote }}, defaultMode: 0440}
{{- end }}
{{- end }}
