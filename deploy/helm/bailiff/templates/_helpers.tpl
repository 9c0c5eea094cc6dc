{{/* Labels of everything. */}}
{{- define "bailiff.labels" -}}
app.kubernetes.io/part-of: bailiff
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/* Labels that choose one service's pods. Called with (dict "root" $ "name" NAME). */}}
{{- define "bailiff.selector" -}}
app.kubernetes.io/name: {{ .root.Release.Name }}-{{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{- define "bailiff.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "bailiff.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Pod Security `restricted`. 10001 is the image's user. */}}
{{- define "bailiff.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "bailiff.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "bailiff.network" -}}
{{- if .Values.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- end }}

{{/* Kafka's settings that all share. Called with (dict "root" $). */}}
{{- define "bailiff.kafkaEnvFrom" -}}
envFrom:
  - configMapRef: {name: {{ .root.Release.Name }}-kafka}
{{- end }}

{{/* The user of a role. Called with (dict "root" $ "role" ROLE). */}}
{{- define "bailiff.kafkaUser" -}}
{{- $kafka := .root.Values.kafka -}}
{{- if hasPrefix "SASL" $kafka.securityProtocol }}
- {name: BAILIFF_KAFKA__USERNAME, value: {{ $kafka.userSecretPrefix }}{{ .role }}}
- name: BAILIFF_KAFKA__PASSWORD
  valueFrom: {secretKeyRef: {name: {{ $kafka.userSecretPrefix }}{{ .role }}, key: password}}
{{- end }}
{{- end }}

{{- define "bailiff.kafkaMounts" -}}
{{- with .root.Values.kafka }}
{{- if .caSecret.name }}
- {name: kafka-ca, mountPath: /etc/bailiff/kafka-ca, readOnly: true}
{{- end }}
{{- if eq .securityProtocol "SSL" }}
- {name: kafka-user, mountPath: /etc/bailiff/kafka-user, readOnly: true}
{{- end }}
{{- end }}
{{- end }}

{{- define "bailiff.kafkaVolumes" -}}
{{- $role := .role -}}
{{- with .root.Values.kafka }}
{{- if .caSecret.name }}
- name: kafka-ca
  secret: {secretName: {{ .caSecret.name }}, defaultMode: 0440, items: [{key: {{ .caSecret.key }}, path: {{ .caSecret.key }}}]}
{{- end }}
{{- if eq .securityProtocol "SSL" }}
- name: kafka-user
  secret: {secretName: {{ .userSecretPrefix }}{{ $role }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- end }}

{{/* Further settings from the values, as variables. */}}
{{- define "bailiff.extraEnv" -}}
{{- range $name, $value := . }}
- {name: {{ $name }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end }}

{{- define "bailiff.probes" -}}
startupProbe: # a long log takes time to read; a service that reads it is alive
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 2
  failureThreshold: 150
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe: # Kafka is reachable, and the log was read to its end
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{/* The services: name, module, values, and what each needs. */}}
{{- define "bailiff.services" -}}
{{- $v := .Values -}}
services:
  - {name: admission, module: bailiff_admission, key: admission, role: admission, certified: true, kafka: true, pools: true, persistent: true}
  - {name: victim-selection, module: bailiff_victim_selection, key: victimSelection, role: victim-selection, certified: true, kafka: true, pools: true}
  - {name: eviction-executor, module: bailiff_eviction_executor, key: evictionExecutor, role: eviction-executor, certified: true, kafka: true, pools: true}
{{- if $v.archive.enabled }}
  - {name: auditor, module: bailiff_auditor, key: auditor, role: auditor, certified: true, kafka: true, pools: true, postgresql: true, persistent: true}
  - {name: api, module: bailiff_auditor.api, key: api, postgresql: true, serves: 8620}
{{- end }}
{{- if $v.rollup.enabled }}
  - {name: rollup, module: bailiff_rollup, key: rollup, role: rollup, certified: true, kafka: true, pools: true}
{{- end }}
{{- if $v.console.enabled }}
  - {name: console, module: bailiff_console, key: console, role: console, certified: true, kafka: true, pools: true, persistent: true, serves: 8640}
{{- end }}
{{- if and $v.witness.enabled $v.archive.enabled }}
  - {name: witness, module: bailiff.witness, key: witness, role: witness, kafka: true, pools: true, persistent: true}
{{- end }}
{{- if $v.bridge.enabled }}
  - {name: kubernetes-bridge, module: bailiff_kubernetes_bridge, key: bridge, role: kubernetes-bridge, kafka: true, pools: true, api: true}
{{- end }}
{{- end }}
