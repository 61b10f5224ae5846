{{/* Names leave room for the longest suffix: a CronJob has 52 characters. */}}
{{- define "pegboard.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 42 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 42 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* A value as a quoted text; toString would write 1000000 as 1e+06. */}}
{{- define "pegboard.text" -}}
{{- if kindIs "string" . -}}{{ quote . }}{{- else -}}{{ toJson . | quote }}{{- end -}}
{{- end -}}

{{- define "pegboard.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "pegboard.labels" -}}
{{ include "pegboard.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end -}}

{{- define "pegboard.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "pegboard.secretName" -}}
{{ not (empty .Values.secret.create) | ternary (include "pegboard.fullname" .) .Values.secret.existing }}
{{- end -}}

{{- define "pegboard.ownerSecretName" -}}
{{ not (empty .Values.ownerSecret.create) | ternary (printf "%s-owner" (include "pegboard.fullname" .)) .Values.ownerSecret.existing }}
{{- end -}}

{{/* The variables of every process. */}}
{{- define "pegboard.variables" -}}
{{- $kubectl := printf "kubectl --namespace %s" .Release.Namespace -}}
{{- $derived := dict
      "PEGBOARD_MANAGE" (printf "%s exec deploy/%s-web -- python manage.py" $kubectl (include "pegboard.fullname" .))
      "PEGBOARD_START" (printf "%s rollout restart deploy/%s-{process}" $kubectl (include "pegboard.fullname" .)) -}}
{{- with .Values.ingress -}}
{{- if .enabled -}}
{{- $scheme := ternary "https" "http" (ne .tlsSecret "") -}}
{{- $_ := set $derived "PEGBOARD_URL" (printf "%s://%s" $scheme .host) -}}
{{- $_ := set $derived "PEGBOARD_HOSTS" (trim (printf "%s %s" .host .runtimesHost)) -}}
{{- $_ := set $derived "PEGBOARD_PROXIES" (toString .proxies) -}}
{{- if .tlsSecret -}}{{- $_ := set $derived "PEGBOARD_HTTPS" "1" -}}{{- end -}}
{{- if .runtimesHost -}}{{- $_ := set $derived "PEGBOARD_RUNTIMES_URL" (printf "%s://%s" $scheme .runtimesHost) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $value := merge (deepCopy .Values.variables) $derived }}
{{ $name }}: {{ include "pegboard.text" $value }}
{{- end }}
{{- end -}}

{{/* What each process runs: the commands of docker-compose.yml, compared by tests/deploy/test_helm_chart.py. */}}
{{- define "pegboard.commands" -}}
web: []
runtimes: []
worker: [celery, --quiet, -A, pegboard, worker, --loglevel, INFO, --queues, enumeration, --autoscale, "14,1", --without-gossip, --without-mingle, --without-heartbeat]
slow: [celery, --quiet, -A, pegboard, worker, --loglevel, INFO, --queues, slow, --hostname, slow@%h, --autoscale, "2,1", --without-gossip, --without-mingle, --without-heartbeat]
caller: [celery, --quiet, -A, pegboard, worker, --loglevel, INFO, --queues, calls, --hostname, calls@%h, --pool, threads, --concurrency, "64", --without-gossip, --without-mingle, --without-heartbeat]
beat: [celery, --quiet, -A, pegboard, beat, --loglevel, INFO]
{{- end -}}

{{- define "pegboard.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- define "pegboard.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}
