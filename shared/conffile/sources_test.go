package conffile_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/conffile"
)

func TestAFileThatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	var c config
	path := filepath.Join(t.TempDir(), "none.yaml")
	require.ErrorContains(t, conffile.Load(&c, conffile.Sources{Path: path}), path)
}

func TestAFileThatIsNoYAMLIsNamed(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"broken": "session: {ttl: 3s\n", "a list": "- a\n- b\n", "a text": "just words\n",
		"key twice": "node: a\nnode: b\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c config
			path := file(t, text)
			require.ErrorContains(t, conffile.Load(&c, conffile.Sources{Path: path}), path)
		})
	}
}

func TestAnEmptyFileKeepsTheDefaults(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing\n", "---\n"} {
		c := config{Node: "default"}
		require.NoError(t, conffile.Load(&c, conffile.Sources{Path: file(t, text)}))
		require.Equal(t, config{Node: "default"}, c)
	}
}

func TestAListInTheFileReplacesTheDefault(t *testing.T) {
	t.Parallel()
	c := config{Addresses: []string{"a", "b", "c"}, Providers: []provider{{Name: "x", URL: "y"}, {Name: "z"}}}
	require.NoError(t, conffile.Load(&c, conffile.Sources{Path: file(t, "addresses: [d]\nproviders:\n  - name: only\n")}))
	require.Equal(t, []string{"d"}, c.Addresses)
	require.Equal(t, []provider{{Name: "only"}}, c.Providers, "an element takes nothing from the default at its place")
}

// The file is refused even where a later source would have hidden the mistake.
func TestAMistakeInTheFileIsNotHiddenByTheEnvironment(t *testing.T) {
	t.Parallel()
	var c config
	err := conffile.Load(&c, conffile.Sources{
		Path: file(t, "session:\n  tl: 3s\n"), EnvPrefix: "FY", Environ: []string{"FY_SESSION_TTL=4s"},
	})
	require.ErrorContains(t, err, "tl")
}

func TestEnvironmentRefusesEveryMistakeAtOnce(t *testing.T) {
	t.Parallel()
	var c config
	err := conffile.Load(&c, conffile.Sources{EnvPrefix: "FY", Environ: []string{"FY_A=1", "FY_MAX=x", "FY_STRICT=perhaps", "FYX=1", "fy_node=x"}})
	for _, want := range []string{"FY_A", "FY_MAX", `"x"`, "FY_STRICT", `"perhaps"`} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "FYX")
}

func TestADurationFromTheEnvironmentNeedsAUnit(t *testing.T) {
	t.Parallel()
	var c config
	err := conffile.Load(&c, conffile.Sources{EnvPrefix: "FY", Environ: []string{"FY_SESSION_TTL=15"}})
	require.ErrorContains(t, err, "session.ttl")
	require.ErrorContains(t, err, `"15"`)
	require.ErrorContains(t, err, "unit")
}

func TestAFlagThatWasNotSetChangesNothing(t *testing.T) {
	t.Parallel()
	c := config{Session: session{TTL: time.Second, Grace: 2 * time.Second}}
	fs := pflag.NewFlagSet("t", pflag.ContinueOnError)
	fs.Duration("session.ttl", time.Hour, "")
	fs.Duration("session.kill-grace", time.Hour, "")
	fs.StringSlice("addresses", []string{"default"}, "")
	require.NoError(t, fs.Parse([]string{"--session.kill-grace=3s", "--addresses=a,b"}))
	require.NoError(t, conffile.Load(&c, conffile.Sources{Flags: fs}))
	require.Equal(t, config{Session: session{TTL: time.Second, Grace: 3 * time.Second}, Addresses: []string{"a", "b"}}, c)
}

func TestPathsListsEveryField(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"addresses", "max", "node", "providers", "session.kill_grace", "session.ttl", "strict"}, conffile.Paths(&config{}))
}

func TestProblemsPrefixJoinedErrors(t *testing.T) {
	t.Parallel()
	var inner, outer conffile.Problems
	inner.Addf("ttl", "1s: too short")
	inner.Addf("name", "%q: unknown", "100%d")
	outer.Add("session", inner.Err())
	require.EqualError(t, outer.Err(), "session: ttl: 1s: too short\nsession: name: \"100%d\": unknown")
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{"node: x\n", "session: {ttl: 3s}\n", "providers: [{name: a}]\n", "a: &a [*a]\n", "\x00", "max: 9999999999999999999999\n", "strict: yes\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var c config
		_ = conffile.Load(&c, conffile.Sources{Path: file(t, text)}) // must not panic
	})
}
