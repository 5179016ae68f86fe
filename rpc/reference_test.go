package rpc

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode"

	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"
)

// registered are the Go methods behind every name that a client can call.
func registered(t *testing.T) map[string]reflect.Type {
	out := make(map[string]reflect.Type)
	s := &Server{service: new(service)}
	for space, apis := range s.apis(false) {
		for _, api := range apis {
			for m := range reflect.TypeOf(api).Methods() {
				name := []rune(m.Name)
				name[0] = unicode.ToLower(name[0])
				full := space + "_" + string(name)
				if m.Type.NumOut() == 2 && m.Type.Out(0) == reflect.TypeFor[*gethrpc.Subscription]() {
					full = "eth_subscribe " + string(name)
				}
				require.NotContains(t, out, full)
				out[full] = m.Type
			}
		}
	}
	return out
}

// Every method has its entry with the parameters that it takes, and every entry its method; the documents are written
// from the entries (BORNODE_UPDATE=1 writes them again).
func TestReference(t *testing.T) {
	offered := registered(t)
	for _, m := range Methods() {
		typ, ok := offered[m.Name]
		require.True(t, ok, "methods.go has %s, which no client can call", m.Name)
		delete(offered, m.Name)
		var types []reflect.Type
		for i := 1; i < typ.NumIn(); i++ { // without the receiver
			if typ.In(i) != reflect.TypeFor[context.Context]() {
				types = append(types, typ.In(i))
			}
		}
		var names []string
		if m.Params != "" {
			names = strings.Split(m.Params, ", ")
		}
		require.Len(t, names, len(types), "%s takes %v", m.Name, types)
		for i, name := range names {
			require.Equal(t, types[i].Kind() == reflect.Pointer, strings.HasSuffix(name, "?"), "%s: may %q be left out?", m.Name, name)
		}
		require.NotEmpty(t, m.Does, m.Name)
		require.NotEmpty(t, m.Result, m.Name)
	}
	require.Empty(t, offered, "methods.go lacks them")
	generated(t, "../docs/rpc.md", "methods", referenceText())
	generated(t, "../docs/compatibility.md", "methods", compatibilityText())
}

// generated compares the part of a document between its two marks with what it must be. What is around the marks is
// written by hand.
func generated(t *testing.T, path, name, want string) {
	t.Helper()
	begin, end := "<!-- generated: "+name+" -->\n", "<!-- end of "+name+" -->"
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	head, rest, ok := bytes.Cut(b, []byte(begin))
	require.True(t, ok, "%s lacks the mark %q", path, begin)
	is, tail, ok := bytes.Cut(rest, []byte(end))
	require.True(t, ok, "%s lacks the mark %q", path, end)
	if os.Getenv("BORNODE_UPDATE") != "" && string(is) != want {
		require.NoError(t, os.WriteFile(path, []byte(string(head)+begin+want+end+string(tail)), 0o644))
		return
	}
	require.Equal(t, want, string(is), "%s is not what rpc/methods.go says; run make docs", path)
}

func referenceText() string {
	var b strings.Builder
	for _, g := range Groups() {
		where := g.Methods[0].Offered()
		fmt.Fprintf(&b, "\n### %s\n\n", g.Title)
		note := g.Note
		if where != "everywhere" {
			note = strings.TrimSpace(where + ". " + note)
		}
		if note != "" {
			fmt.Fprintf(&b, "%s\n\n", note)
		}
		b.WriteString("| method | parameters | answer | |\n|---|---|---|---|\n")
		for _, m := range g.Methods {
			does := m.Does
			if m.Partly != "" {
				does += " (" + m.Partly + ")"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Params, m.Result, does)
		}
	}
	return b.String() + "\n"
}

func compatibilityText() string {
	var b strings.Builder
	b.WriteString("\n| method | answered | |\n|---|---|---|\n")
	for _, g := range Groups() {
		for _, m := range g.Methods {
			if m.Namespace() == "bor" {
				continue
			}
			is := "yes"
			if m.Partly != "" {
				is = "partly"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.Name, is, m.Partly)
		}
	}
	for _, x := range absent {
		fmt.Fprintf(&b, "| %s | no | %s |\n", x.names, x.why)
	}
	return b.String() + "\n"
}

// What is said to be absent is absent.
func TestAbsentMethods(t *testing.T) {
	offered := registered(t)
	for _, x := range absent {
		for name := range strings.SplitSeq(x.names, ", ") {
			name, _, _ = strings.Cut(name, " ")
			require.NotContains(t, offered, name)
			if space, ok := strings.CutSuffix(name, "*"); ok {
				for m := range offered {
					require.False(t, strings.HasPrefix(m, space), "%s is offered, but %s said to be absent", m, name)
				}
			}
		}
	}
}
