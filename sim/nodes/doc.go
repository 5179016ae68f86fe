// Package nodes runs several whole nodes in one process under virtual time.
package nodes
