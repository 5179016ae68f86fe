// Package config is the node's settings: one struct made of every package's own Config, read from a TOML file, the
// environment (BORNODE_SECTION_KEY) and command-line flags, in rising order of precedence. Viper lives only here.
// An unknown key is an error that names the nearest known one. The commented file bornode.toml in this folder is
// generated from the defaults and their comment tags, and a test keeps them equal. The package holds no state.
package config
