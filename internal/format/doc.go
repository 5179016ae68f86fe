// Package format keeps, in each folder of the node, a file FORMAT that says in which form the folder's data is, so that no
// program touches what another version wrote in a form that it does not know. It keeps no state.
package format
