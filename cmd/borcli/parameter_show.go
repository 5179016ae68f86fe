package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// parametersTable prints the node's answer about its parameters: plain values by name, then lists and objects in the
// node's own words.
func parametersTable(w io.Writer, now map[string]json.RawMessage) {
	var pairs []pair
	for _, key := range slices.Sorted(maps.Keys(now)) {
		pairs = append(pairs, flatten(key, now[key])...)
	}
	lines(w, pairs...)
}

// flatten turns a JSON value into lines: an object's members one by one, one line per element of a list.
func flatten(name string, raw json.RawMessage) []pair {
	var object map[string]json.RawMessage
	var list []json.RawMessage
	var text string
	switch {
	case json.Unmarshal(raw, &object) == nil && object != nil:
		var out []pair
		for _, key := range slices.Sorted(maps.Keys(object)) {
			out = append(out, flatten(name+"."+key, object[key])...)
		}
		return out
	case json.Unmarshal(raw, &list) == nil:
		var out []pair
		for i, x := range list {
			out = append(out, pair{fmt.Sprintf("%s[%d]", name, i), oneLine(x)})
		}
		return out
	case json.Unmarshal(raw, &text) == nil:
		return []pair{{name, text}}
	}
	return []pair{{name, string(raw)}}
}

// oneLine writes an element of a list: name value, name value.
func oneLine(raw json.RawMessage) string {
	var parts []string
	for _, p := range flatten("", raw) {
		parts = append(parts, strings.TrimSpace(strings.TrimPrefix(p.name, ".")+" "+p.value))
	}
	return strings.Join(parts, ", ")
}
