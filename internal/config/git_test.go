package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBaseURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                     "http://127.0.0.1:4711",
		"public_url: https://weir.example.com": "https://weir.example.com",
		"public_url: https://weir.example.com:8443/": "https://weir.example.com:8443",
		"public_url: 'http://[::1]:80'":              "http://[::1]:80",
	} {
		require.Equal(t, want, parse(t, text).BaseURL("127.0.0.1:4711"), text)
	}
	for listening, want := range map[string]string{
		"localhost:1": "http://localhost:1", "[::1]:2": "http://[::1]:2", "10.1.2.3:3": "http://10.1.2.3:3",
		":4": "http://127.0.0.1:4", "0.0.0.0:5": "http://127.0.0.1:5", "[::]:6": "http://127.0.0.1:6",
	} {
		require.Equal(t, want, parse(t, "").BaseURL(listening))
	}
}

func TestGitDir(t *testing.T) {
	t.Parallel()
	require.Equal(t, "here/git", parse(t, "data: here").GitDir())
	require.Equal(t, "/repos", parse(t, "git: {dir: /repos}").GitDir())
	require.Empty(t, parse(t, "nats: {url: 'nats://n'}").GitDir(), "a node of a cluster has no data directory")
	require.Equal(t, "/repos", parse(t, "nats: {url: 'nats://n'}\ngit: {dir: /repos}").GitDir())
}

// TestShortHistoriesStayGood: a file that was right before there were tasks still is.
func TestShortHistoriesStayGood(t *testing.T) {
	t.Parallel()
	require.Equal(t, 105*time.Minute, parse(t, "log: {history: 2h}").Deadline.Task)
	require.Equal(t, 50*time.Minute, parse(t, "log: {history: 1h}").Deadline.Task)
	require.Equal(t, 8*time.Hour, parse(t, "log: {history: 10h}").Deadline.Task)
	require.Equal(t, 9*time.Hour, parse(t, "log: {history: 12h}\ndeadline: {task: 9h}").Deadline.Task)
}

// TestLongestAction: what comes to its deadline is still there to be ended.
func TestLongestAction(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": 147 * time.Hour, "log: {history: 1h}": 50 * time.Minute, "log: {history: 80m}": 70 * time.Minute, "log: {history: 8h}": 7 * time.Hour,
	} {
		require.Equal(t, want, parse(t, text).LongestAction(), text)
	}
}
