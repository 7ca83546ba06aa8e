//go:build race

package modeltest_test

const raceDetector = true
