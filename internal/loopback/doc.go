// Package loopback finds addresses of this machine for processes that listen again and again.
package loopback
