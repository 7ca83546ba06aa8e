// Package tunneltest makes connected pairs of tunnels over loopback TLS.
package tunneltest
