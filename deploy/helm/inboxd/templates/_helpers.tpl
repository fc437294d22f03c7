{{/* The name of the Deployment and of the ServiceAccount. The other names add a suffix: "-inboxd-migrate" is the longest. */}}
{{- define "inboxd.name" -}}
{{ .Release.Name | trunc 48 | trimSuffix "-" }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "inboxd.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "inboxd.podLabels" . }}
{{- end }}

{{/* Labels of every pod. */}}
{{- define "inboxd.podLabels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "inboxd.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Makes a list of variables from a map. */}}
{{- define "inboxd.env" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  {{- if kindIs "map" $value }}
  {{- toYaml $value | nindent 2 }}
  {{- else }}
  value: {{ quote $value }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Each role with its users, so that nobody has to grant them between the migration and the first start. */}}
{{- define "inboxd.migrateArgs" -}}
- migrate
- {{ if .Values.migrate.roles }}--roles={{ .Values.migrate.roles }}{{ else }}--roles{{ end }}
{{- range $role, $users := .Values.migrate.grants }}
{{- range $users }}
- --grant={{ $role }}={{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "inboxd.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "inboxd.configMap" -}}
{{ if .Values.config }}{{ include "inboxd.name" . }}-inboxd{{ else }}{{ .Values.configMap }}{{ end }}
{{- end }}

{{- define "inboxd.configData" -}}
{{ toYaml (merge (dict "inboxd.yaml" .Values.config) .Values.files) }}
{{- end }}

{{- define "inboxd.configMounts" -}}
- name: inboxd-config
  mountPath: /etc/inboxd
  readOnly: true
- name: inboxd-secrets
  mountPath: /run/secrets/inboxd
  readOnly: true
{{- end }}

{{/* The templates below are the parts of a pod with inboxd. A parent chart can include them; see README.md. */}}

{{/* Annotations of the pod. The checksum makes Kubernetes replace the pods when the configuration changes. */}}
{{- define "inboxd.podAnnotations" -}}
{{- with .Values.pod.annotations }}
{{- toYaml . }}
{{- end }}
{{- if .Values.config }}
checksum/config: {{ include "inboxd.configData" . | sha256sum }}
{{- end }}
{{- end }}

{{- define "inboxd.podSecurityContext" -}}
{{ toYaml .Values.pod.securityContext }}
{{- end }}

{{/* An item of initContainers. A native sidecar: Kubernetes starts it before the handlers and stops it after them. It needs
no preStop: when SIGTERM arrives, the handlers have stopped. */}}
{{- define "inboxd.sidecar" -}}
- name: inboxd
  image: {{ include "inboxd.image" . }}
  restartPolicy: Always
  args: [run]
  env:
    - name: INBOXD_INBOX_INSTANCE
      valueFrom:
        fieldRef:
          fieldPath: metadata.name
    {{- include "inboxd.env" .Values.sidecar.env | trim | nindent 4 }}
  ports:
    - name: inboxd
      containerPort: 9464
  # The handlers start as soon as inboxd runs, also when its database is down.
  startupProbe:
    httpGet: {path: /livez, port: inboxd}
    periodSeconds: 1
    failureThreshold: 30
  # Fails when one of the two loops makes no progress. The database and Kafka do not matter: a restart would not help.
  livenessProbe:
    httpGet: {path: /livez, port: inboxd}
    periodSeconds: 10
    timeoutSeconds: 2
    failureThreshold: 3
  {{- if .Values.sidecar.readiness }}
  # Fails when messages make no progress. A rollout waits for it, because it counts for the pod.
  readinessProbe:
    httpGet: {path: /readyz, port: inboxd}
    periodSeconds: 5
    timeoutSeconds: 2
    failureThreshold: 3
  {{- end }}
  resources:
    {{- toYaml .Values.sidecar.resources | nindent 4 }}
  securityContext:
    {{- include "inboxd.containerSecurityContext" . | nindent 4 }}
  volumeMounts:
    {{- include "inboxd.socketMount" . | nindent 4 }}
    {{- include "inboxd.configMounts" . | nindent 4 }}
    {{- with .Values.sidecar.volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* An item of volumeMounts, for inboxd and for the handlers. */}}
{{- define "inboxd.socketMount" -}}
- name: inbox
  mountPath: /run/inboxd
{{- end }}

{{/* Items of volumes. */}}
{{- define "inboxd.volumes" -}}
- name: inbox
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
- name: inboxd-config
  configMap:
    name: {{ include "inboxd.configMap" . }}
- name: inboxd-secrets
  secret:
    secretName: {{ .Values.secrets.sidecar }}
    defaultMode: 0440
{{- with .Values.pod.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
