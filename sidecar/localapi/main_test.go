package localapi_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// A controller that can be killed is a process of its own: this binary again,
// told by the environment what to send to which socket. It prints what it
// gets, line by line, and ends with the answer.
const (
	asController   = "FORGEYARD_TEST_SOCKET"
	controllerPath = "FORGEYARD_TEST_PATH"
	controllerBody = "FORGEYARD_TEST_BODY"
)

func TestMain(m *testing.M) {
	if socket := os.Getenv(asController); socket != "" {
		os.Exit(controller(socket))
	}
	os.Exit(m.Run())
}

func controller(socket string) int {
	resp, err := dial(socket).Post("http://sidecar"+os.Getenv(controllerPath), "application/json", strings.NewReader(os.Getenv(controllerBody)))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		fmt.Println(lines.Text())
	}
	if resp.StatusCode != http.StatusOK {
		return 1
	}
	if os.Getenv(controllerPath) == "/v1/acquire" {
		select {} // until it is killed: the hold is bound to this process
	}
	return 0
}
