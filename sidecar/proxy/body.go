package proxy

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// inMemory is up to where a body stays in memory; above it it is spooled to a
// file that has no name.
const inMemory = 1 << 20

// body is a request's whole body, read and validated before anything leaves:
// a malformed or truncated one never starts an effect.
type body struct {
	memory []byte
	file   *os.File
	size   int64
	digest [sha256.Size]byte // of method, path, query and content
}

var (
	errTooLarge = errors.New("body is too large")
	errSpool    = errors.New("spool body") // our disk's fault, not the caller's
)

// readBody reads r's body. It fails with errSpool, or by the caller's fault.
func (p *Proxy) readBody(r *http.Request, c call) (*body, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s\x00", c.upstream.provider.Name, r.Method, c.path, r.URL.RawQuery)
	src := io.TeeReader(io.LimitReader(r.Body, p.cfg.BodyLimit+1), h)
	var b body
	var buf bytes.Buffer
	n, err := io.CopyN(&buf, src, inMemory)
	b.size = n
	if err == nil { // there may be more
		if err := b.spool(p.cfg.SpoolDir, &buf, src); err != nil {
			b.close()
			return nil, err
		}
	} else if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("body: %w", err)
	} else {
		b.memory = buf.Bytes()
	}
	if b.size > p.cfg.BodyLimit {
		b.close()
		return nil, fmt.Errorf("body: %w: at most %d bytes", errTooLarge, p.cfg.BodyLimit)
	}
	h.Sum(b.digest[:0])
	return &b, nil
}

func (b *body) spool(dir string, head *bytes.Buffer, rest io.Reader) error {
	f, err := os.CreateTemp(dir, "forgeyard-body-*")
	if err != nil {
		return fmt.Errorf("%w: %w", errSpool, err)
	}
	b.file = f
	if err := os.Remove(f.Name()); err != nil {
		return fmt.Errorf("%w: %w", errSpool, err)
	}
	if b.size, err = io.Copy(spoolFile{f}, io.MultiReader(head, rest)); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	return nil
}

// spoolFile marks errors of the file, which a copy mixes with the caller's.
type spoolFile struct{ f *os.File }

// Write implements io.Writer.
func (s spoolFile) Write(p []byte) (int, error) {
	n, err := s.f.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w", errSpool, err)
	}
	return n, err
}

// reader returns the body for the one send. net/http must not be able to make
// a second copy of it.
func (b *body) reader() io.ReadCloser {
	if b.size == 0 {
		return http.NoBody
	}
	if b.file != nil {
		return io.NopCloser(io.NewSectionReader(b.file, 0, b.size))
	}
	return io.NopCloser(&onceReader{b.memory})
}

func (b *body) close() {
	if b.file != nil {
		b.file.Close()
	}
}

// onceReader is a bytes.Reader that net/http does not recognise as one.
type onceReader struct{ rest []byte }

// Read implements io.Reader.
func (r *onceReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
