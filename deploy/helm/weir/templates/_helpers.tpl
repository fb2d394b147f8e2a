{{- define "weir.name" -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{- end }}

{{- define "weir.selector" -}}
app.kubernetes.io/name: weir
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with get . "component" }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/part-of: weir
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* The components: each has its own pods. */}}
{{- define "weir.components" -}}
{{- if eq .Values.mode "cluster" }}ingress worker egress{{ if .Values.git.enabled }} git{{ end }}{{ else }}single{{ end }}
{{- end }}

{{/* weir.yaml: what the chart needs, under the values of the user. */}}
{{- define "weir.config" -}}
{{- $base := dict "listen" "0.0.0.0:8092" "auth" (dict "mode" "tokens") }}
{{- if eq .Values.mode "cluster" }}
{{- $_ := set $base "nats" (dict "url" .Values.nats.url "creds" "/run/secrets/weir/role.nk" "tls" (dict "ca" "/run/secrets/weir/ca.pem")) }}
{{- else }}
{{- $_ := set $base "data" "/data" }}
{{- end }}
{{- if .Values.secrets.existingSecret }}
{{- $_ := set $base "secrets" (dict "dir" "/run/secrets/targets") }}
{{- end }}
{{- toYaml (mergeOverwrite $base (deepCopy .Values.config)) }}
{{- end }}

{{- define "weir.pod" -}}
{{- $v := .root.Values }}
{{- $args := dict "single" "serve" "git" "serve" }}
metadata:
  labels: {{- include "weir.labels" . | nindent 4 }}
  annotations:
    checksum/config: {{ include "weir.config" .root | sha256sum }}
spec:
  serviceAccountName: {{ include "weir.name" .root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $v.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- with $v.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if has .component (list "ingress" "worker" "egress") }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "weir.selector" . | nindent 10 }}
  {{- end }}
  containers:
    - name: weir
      image: "{{ $v.image.repository }}:{{ $v.image.tag | default .root.Chart.AppVersion }}"
      imagePullPolicy: {{ $v.image.pullPolicy }}
      args: [{{ get $args .component | default .component }}, --config, /etc/weir/weir.yaml]
      env:
        {{- if eq .component "ingress" }}
        # The first of them makes the first admin token; no other node needs a file for it.
        - {name: WEIR_AUTH_ADMIN_TOKEN_FILE, value: /run/weir/admin.token}
        {{- else if eq .component "git" }}
        - {name: WEIR_GIT_DIR, value: /data/git}
        {{- end }}
        {{- with $v.env }}{{ toYaml . | nindent 8 }}{{ end }}
      ports:
        - {name: http, containerPort: 8092}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      startupProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 1
        failureThreshold: 60
      # Alive is not ready: without its log a node waits for it, and a restart does not help.
      livenessProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 10
        timeoutSeconds: 3
        failureThreshold: 3
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 2
        timeoutSeconds: 3
        failureThreshold: 2
      resources: {{- toYaml $v.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/weir, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- if eq $v.mode "cluster" }}
        - {name: nats, mountPath: /run/secrets/weir, readOnly: true}
        {{- end }}
        {{- if eq .component "ingress" }}
        - {name: run, mountPath: /run/weir}
        {{- end }}
        {{- if has .component (list "single" "git") }}
        - {name: data, mountPath: /data}
        {{- end }}
        {{- if $v.secrets.existingSecret }}
        - {name: targets, mountPath: /run/secrets/targets, readOnly: true}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "weir.name" .root }}}
    - name: tmp
      emptyDir: {sizeLimit: 4Gi}
    {{- if eq $v.mode "cluster" }}
    - name: nats
      secret:
        secretName: {{ $v.nats.existingSecret }}
        items: [{key: {{ ternary "serve" .component (eq .component "git") }}.nk, path: role.nk}, {key: ca.pem, path: ca.pem}]
        defaultMode: 0440
    {{- end }}
    {{- if eq .component "ingress" }}
    - name: run
      emptyDir: {medium: Memory, sizeLimit: 1Mi}
    {{- end }}
    {{- if and (eq .component "single") $v.persistence.existingClaim }}
    - name: data
      persistentVolumeClaim: {claimName: {{ $v.persistence.existingClaim }}}
    {{- end }}
    {{- with $v.secrets.existingSecret }}
    - name: targets
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
{{- end }}
