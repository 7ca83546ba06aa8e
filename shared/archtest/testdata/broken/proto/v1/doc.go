// Package v1 stands for generated code.
package v1
