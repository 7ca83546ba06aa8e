// Package route decides what a request to a provider is: a read or a mutation,
// and how safe it is to repeat.
//
// Guarantees: matching looks at the path as the provider will read it; a path
// that two servers could read differently is refused, never classified; what
// no route names is a manual-only mutation unless its method is safe (RFC 9110
// section 9.2.1). The package is pure.
//
// Not promised: that a provider treats a safe method as safe; a route can say
// otherwise.
package route
