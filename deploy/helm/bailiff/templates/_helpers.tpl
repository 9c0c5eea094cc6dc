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

{{/* Variables: a container's own, and those of the values, which win. Called with (dict "own" YAML "given" MAP). */}}
{{- define "bailiff.env" -}}
{{- $given := .given -}}
{{- range fromYamlArray .own }}
{{- if not (hasKey $given .name) }}
- {{ toJson . }}
{{- end }}
{{- end }}
{{- range $name, $value := $given }}
- {name: {{ $name }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end }}

{{/* Where the API server is, for pods that talk to it; Kubernetes sets the same variables to its Service. */}}
{{- define "bailiff.apiServer" -}}
{{- with .Values.apiServer }}
{{- if .host }}
- {name: KUBERNETES_SERVICE_HOST, value: {{ .host | quote }}}
- {name: KUBERNETES_SERVICE_PORT, value: {{ .port | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{/* Variables of a service. Called with (dict "root" $ "service" SERVICE). */}}
{{- define "bailiff.serviceEnv" -}}
- {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
- {name: BAILIFF_HTTP_HOST, value: $(POD_IP)}
- {name: BAILIFF_HTTP_PORT, value: {{ (index .root.Values .service.key).port | quote }}}
- {name: BAILIFF_INSTANCE, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
{{- if .service.kafka }}
{{- include "bailiff.kafkaUser" (dict "root" .root "role" .service.role) | nindent 0 }}
{{- end }}
{{- if or .service.certified .service.api }}
- {name: BAILIFF_CREDENTIALS, value: /var/lib/bailiff-credentials/keys}
{{- end }}
{{- if .service.postgresql }}
- name: BAILIFF_POSTGRES
  valueFrom: {secretKeyRef: {{ .root.Values.archive.secret | toJson }}}
{{- end }}
{{- if eq .service.name "admission" }}
- {name: BAILIFF_POLICY, value: /var/lib/bailiff-credentials/keys/policy.yaml}
{{- else if eq .service.name "auditor" }}
- {name: BAILIFF_SEAL_KEY, value: /var/lib/bailiff-credentials/keys/seal.key}
{{- else if eq .service.name "api" }}
- {name: BAILIFF_API_HOST, value: 0.0.0.0}
- {name: BAILIFF_API_HOSTS, value: '["{{ .root.Release.Name }}-{{ .service.name }}"]'}
- name: BAILIFF_API_TOKEN
  valueFrom: {secretKeyRef: {name: {{ .root.Release.Name }}-api-token, key: token}}
{{- else if eq .service.name "console" }}
- {name: BAILIFF_CONSOLE_HOST, value: 0.0.0.0}
- {name: BAILIFF_CONSOLE_IN_CONTAINER, value: "true"}
- {name: BAILIFF_CONSOLE_USER, value: operator}
- name: BAILIFF_CONSOLE_TOKEN
  valueFrom: {secretKeyRef: {name: {{ .root.Release.Name }}-console-keys, key: token}}
- {name: BAILIFF_KEY, value: /var/lib/bailiff-credentials/keys/console.key}
- {name: BAILIFF_ACTOR, value: console}
{{- if .root.Values.archive.enabled }}
- {name: BAILIFF_API, value: "http://{{ .root.Release.Name }}-api:8620"}
- name: BAILIFF_API_TOKEN
  valueFrom: {secretKeyRef: {name: {{ .root.Release.Name }}-api-token, key: token}}
{{- end }}
{{- else if eq .service.name "kubernetes-bridge" }}
{{- include "bailiff.apiServer" .root | nindent 0 }}
- {name: BAILIFF_KEY, value: /var/lib/bailiff-credentials/keys/kubernetes-bridge.key}
- {name: BAILIFF_ACTOR, value: kubernetes-bridge}
- {name: BAILIFF_LEASE_NAME, value: {{ .root.Release.Name }}-kubernetes-bridge}
{{- end }}
{{- end }}

{{/* One rule of a NetworkPolicy. Called with (dict "to" PEERS "numbers" PORTS), or "ports" as Kubernetes writes them; no peers: anywhere. */}}
{{- define "bailiff.egress" }}
{{- $ports := .ports | default list }}
{{- range .numbers }}
{{- $ports = append $ports (dict "port" (int .)) }}
{{- end }}
    - ports: {{ toJson $ports }}
      {{- with .to }}
      to: {{ toJson . }}
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

{{/* The names of the agents' workloads. */}}
{{- define "bailiff.agents" -}}
{{- $agents := .Values.agents -}}
agents:
{{- if and $agents.enabled $agents.onNodes }}
  - node-agent
{{- end }}
{{- if and $agents.enabled $agents.apiOnly.enabled }}
  - api-only-agent
{{- end }}
{{- end }}
