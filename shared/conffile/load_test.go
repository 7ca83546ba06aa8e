package conffile_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/conffile"
)

type session struct {
	TTL   time.Duration `config:"ttl"`
	Grace time.Duration `config:"kill_grace"`
}

type provider struct {
	Name string `config:"name"`
	URL  string `config:"url"`
}

type config struct {
	Node      string     `config:"node"`
	Session   session    `config:"session"`
	Addresses []string   `config:"addresses"`
	Providers []provider `config:"providers"`
	Strict    bool       `config:"strict"`
	Max       int        `config:"max"`
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestLaterSourcesWin(t *testing.T) {
	t.Parallel()
	c := config{Node: "default", Session: session{TTL: time.Second, Grace: time.Minute}}
	fs := pflag.NewFlagSet("t", pflag.ContinueOnError)
	fs.Duration("session.ttl", 0, "")
	fs.Bool("verbose", false, "not a field")
	require.NoError(t, fs.Parse([]string{"--session.ttl=9s", "--verbose"}))
	err := conffile.Load(&c, conffile.Sources{
		Path:      file(t, "node: file\nsession:\n  ttl: 7s\nproviders:\n  - {name: git, url: http://x}\n"),
		EnvPrefix: "FY", Environ: []string{"FY_NODE=env", "FY_SESSION_TTL=8s", "FY_ADDRESSES=a:1,b:2", "FY_STRICT=true", "FY_MAX=3", "OTHER=1"},
		Flags: fs,
	})
	require.NoError(t, err)
	require.Equal(t, config{
		Node: "env", Session: session{TTL: 9 * time.Second, Grace: time.Minute}, Addresses: []string{"a:1", "b:2"},
		Providers: []provider{{Name: "git", URL: "http://x"}}, Strict: true, Max: 3,
	}, c)
}

func TestWhatIsWrongIsNamedByPathAndValue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		env  []string
		want []string
	}{
		"unknown key":            {text: "nodde: x\n", want: []string{"unknown key", "nodde"}},
		"unknown nested key":     {text: "session:\n  tll: 3s\n", want: []string{"session", "unknown key", "tll"}},
		"unknown key in a list":  {text: "providers:\n  - {name: a, uri: b}\n", want: []string{"providers[0]", "uri"}},
		"duration without unit":  {text: "session:\n  ttl: 15\n", want: []string{"session.ttl", "15", "unit"}},
		"duration that is none":  {text: "session:\n  ttl: soon\n", want: []string{"session.ttl", "soon"}},
		"wrong type":             {text: "strict: maybe\n", want: []string{"strict", "bool"}},
		"two at once":            {text: "a: 1\nsession:\n  b: 2\n", want: []string{"a", "session", "b"}},
		"unknown variable":       {env: []string{"FY_NODDE=x"}, want: []string{"FY_NODDE", "names no field"}},
		"variable of wrong type": {env: []string{"FY_MAX=many"}, want: []string{"FY_MAX", "max", "many", "whole number"}},
		"variable for a table":   {env: []string{"FY_PROVIDERS=x"}, want: []string{"FY_PROVIDERS", "file only"}},
		"case of a key":          {text: "Node: x\n", want: []string{"unknown key", "Node"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c config
			src := conffile.Sources{EnvPrefix: "FY", Environ: tc.env}
			if tc.text != "" {
				src.Path = file(t, tc.text)
			}
			err := conffile.Load(&c, src)
			require.Error(t, err)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestProblemsKeepEveryPath(t *testing.T) {
	t.Parallel()
	var p conffile.Problems
	require.NoError(t, p.Err())
	p.Addf("session.ttl", "%s: must be at least %s", time.Second, 2*time.Second)
	p.Add("node", nil)
	require.EqualError(t, p.Err(), "session.ttl: 1s: must be at least 2s")
}
