package scope_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/scope"
)

func TestParseKeepsOneCanonicalForm(t *testing.T) {
	t.Parallel()
	for text, canonical := range map[string]string{
		"acme/environment:prod":            "acme/environment:prod",
		"acme/environment:Prod":            "acme/environment:prod",
		"acme/merge-target:Repo/Main":      "acme/merge-target:Repo/Main",
		"acme/device:rack-1:board@2":       "acme/device:rack-1:board@2",
		"a1-b/signing-slot:HSM+1":          "a1-b/signing-slot:hsm+1",
		"acme/custom:a_b.c":                "acme/custom:a_b.c",
		"acme/migration:" + long('x', 200): "acme/migration:" + long('x', 200),
	} {
		s, err := scope.Parse(text)
		require.NoError(t, err)
		require.Equal(t, canonical, s.String())
		again, err := scope.Parse(s.String())
		require.NoError(t, err)
		require.Equal(t, s, again)
		require.Equal(t, s.ID(), again.ID())
	}
}

func long(c rune, n int) string { return strings.Repeat(string(c), n) }

func TestFC17_TwoSpellingsOfOneThingAreOneScope(t *testing.T) {
	t.Parallel()
	upper, err := scope.Parse("acme/environment:PROD")
	require.NoError(t, err)
	lower, err := scope.New("acme", scope.Environment, "prod")
	require.NoError(t, err)
	require.Equal(t, lower, upper)
	main, err := scope.Parse("acme/merge-target:main")
	require.NoError(t, err)
	other, err := scope.Parse("acme/merge-target:Main")
	require.NoError(t, err)
	require.NotEqual(t, main.ID(), other.ID(), "git tells these two apart")
}

func TestParseErrorsNameFieldValueAndWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, field, value, allowed string }{
		{"", "scope", "", "tenant/kind:name"},
		{"prod", "scope", "prod", "tenant/kind:name"},
		{"acme/environment", "scope", "acme/environment", "tenant/kind:name"},
		{"/environment:prod", "tenant", "", "1 to 63"},
		{"Acme/environment:prod", "tenant", "Acme", "a-z"},
		{"1acme/environment:prod", "tenant", "1acme", "starting with a letter"},
		{"ac_me/environment:prod", "tenant", "ac_me", "a-z"},
		{long('a', 64) + "/environment:prod", "tenant", long('a', 64), "1 to 63"},
		{"system/environment:prod", "tenant", "system", "reserved"},
		{"acme/lock:prod", "kind", "lock", "workflow-group"},
		{"acme/Environment:prod", "kind", "Environment", "must be one of"},
		{"acme/environment:", "name", "", "1 to 200"},
		{"acme/environment:" + long('x', 201), "name", long('x', 201), "1 to 200"},
		{"acme/environment:a b", "name", "a b", "letters, digits"},
		{"acme/environment:pröd", "name", "pröd", "letters, digits"},
		{"acme/environment:a\x00", "name", "a\x00", "letters, digits"},
		{"acme/merge-target:/main", "name", "/main", "neither starting nor ending with /"},
		{"acme/merge-target:main/", "name", "main/", "neither starting nor ending with /"},
		{"acme/merge-target:a//b", "name", "a//b", "without //"},
		{"acme/merge-target:../b", "name", "../b", ".."},
	} {
		_, err := scope.Parse(tc.text)
		var invalid *scope.InvalidError
		require.ErrorAs(t, err, &invalid, tc.text)
		require.Equal(t, tc.field, invalid.Field, tc.text)
		require.Equal(t, tc.value, invalid.Value)
		require.Contains(t, invalid.Allowed, tc.allowed)
		require.ErrorContains(t, err, "scope: "+tc.field+" ")
	}
}

func TestErrorDoesNotRepeatAMegabyte(t *testing.T) {
	t.Parallel()
	_, err := scope.Parse("acme/environment:" + long('x', 1<<20))
	require.Less(t, len(err.Error()), 1000)
	require.ErrorContains(t, err, "xxx...")
}

func TestI10_SystemScopesCannotBeNamed(t *testing.T) {
	t.Parallel()
	for _, k := range scope.Kinds() {
		_, err := scope.New(scope.SystemTenant, k, "x")
		require.ErrorContains(t, err, "is reserved")
	}
}

func TestIDIsOfTheCanonicalEncoding(t *testing.T) {
	t.Parallel()
	s, err := scope.Parse("acme/environment:prod")
	require.NoError(t, err)
	require.Equal(t, "864631844228a6eabc607f8487f15f48f3118af7bedfd05abbb10e45695e1f52", s.ID().String(), "stored everywhere: it may never change")
	seen := map[scope.ID]string{}
	for _, text := range []string{"a/custom:b", "a/custom:bc", "ab/custom:c", "a/device:b", "a/custom:b:c", "a/custom:b/c"} {
		s, err := scope.Parse(text)
		require.NoError(t, err)
		require.NotContains(t, seen, s.ID(), text)
		seen[s.ID()] = text
	}
}

func TestTextForm(t *testing.T) {
	t.Parallel()
	var s scope.Scope
	require.True(t, s.IsZero())
	require.Empty(t, s.String())
	require.NoError(t, json.Unmarshal([]byte(`"acme/device:D1"`), &s))
	text, err := json.Marshal(s)
	require.NoError(t, err)
	require.JSONEq(t, `"acme/device:D1"`, string(text))
	require.Error(t, json.Unmarshal([]byte(`"device"`), &s))
	require.NoError(t, json.Unmarshal([]byte(`""`), &s))
	require.True(t, s.IsZero())
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"acme/environment:prod", "a/custom:b:c/d", "system/device:x", "a/b", "//::", "acme/merge-target:../x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := scope.Parse(text)
		if err != nil {
			var invalid *scope.InvalidError
			if !errors.As(err, &invalid) || !s.IsZero() {
				t.Fatalf("%q: %v, %v", text, s, err)
			}
			return
		}
		again, err := scope.Parse(s.String())
		if err != nil || again != s {
			t.Fatalf("%q: canonical form %q parses to %q, %v", text, s, again, err)
		}
		if !strings.EqualFold(text, s.String()) {
			t.Fatalf("%q became %q", text, s)
		}
	})
}
