package sidecar

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/sidecar/localapi"
)

// listeners are what callers connect to.
type listeners struct {
	proxy, local, ops net.Listener
}

func (s *Sidecar) listen() (l listeners, err error) {
	if l.proxy, err = s.listenProxy(); err != nil {
		return l, fmt.Errorf("listen for the proxy: %w", err)
	}
	if l.local, err = localapi.Listen(s.cfg.socket()); err != nil {
		return l, err
	}
	if s.cfg.Ops.Listen != "" {
		if l.ops, err = net.Listen("tcp", s.cfg.Ops.Listen); err != nil {
			return l, fmt.Errorf("listen for operators: %w", err)
		}
	}
	return l, nil
}

// listenProxy takes the port of the process before this one, where none is
// configured: controllers that hold something go on with the base URLs that
// they were given then.
func (s *Sidecar) listenProxy() (net.Listener, error) {
	former := s.formerProxy()
	if former == "" {
		return net.Listen("tcp", s.cfg.Proxy.Listen)
	}
	l, err := net.Listen("tcp", former)
	if err == nil {
		return l, nil
	}
	s.log.Warn("the proxy's former port is taken: base URLs of before do not work any more", zap.String("address", former), zap.Error(err))
	return net.Listen("tcp", s.cfg.Proxy.Listen)
}

// formerProxy is the address that the process before this one announced; empty
// when a port is configured, or nothing was announced for that host.
func (s *Sidecar) formerProxy() string {
	host, port, err := net.SplitHostPort(s.cfg.Proxy.Listen)
	if err != nil || port != "0" {
		return ""
	}
	text, err := os.ReadFile(s.readyFile())
	if err != nil {
		return ""
	}
	var r Ready
	if json.Unmarshal(text, &r) != nil {
		return ""
	}
	_, port, err = net.SplitHostPort(r.Proxy)
	if err != nil {
		return ""
	}
	return net.JoinHostPort(host, port)
}

func (s *Sidecar) readyFile() string { return filepath.Join(s.cfg.DataDir, "ready.json") }

// Ready is what ready.json in the data directory says once everything serves.
type Ready struct {
	Node   string `json:"node"`
	PID    int    `json:"pid"`
	Socket string `json:"socket"`
	Proxy  string `json:"proxy"`
	Ops    string `json:"ops"`
}

func (s *Sidecar) announce(l listeners) error {
	r := Ready{Node: s.cfg.Node, PID: os.Getpid(), Socket: s.cfg.socket(), Proxy: l.proxy.Addr().String()}
	if l.ops != nil {
		r.Ops = l.ops.Addr().String()
	}
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	path := s.readyFile()
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	return nil
}
