package authority

import (
	"time"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/policy"
)

// EnvPrefix starts the environment variables of the configuration.
const EnvPrefix = "FORGEYARD_AUTHORITY"

// The kinds of stores.
const (
	StoreSQLite   = "sqlite"
	StorePostgres = "postgres"
)

// Config is the authority's configuration, as file, environment and flags give
// it.
type Config struct {
	Store          StoreConfig   `config:"store"`
	Listen         ListenConfig  `config:"listen"`
	TLS            TLSConfig     `config:"tls"`
	ReceiptKeyFile string        `config:"receipt_key_file"` // 64 hexadecimal digits, the same for all replicas
	Timing         TimingConfig  `config:"timing"`
	Policy         policy.Config `config:"policy"`
	People         PeopleConfig  `config:"people"`
	Retention      KeepConfig    `config:"retention"`
	Log            LogConfig     `config:"log"`
}

// StoreConfig says where the records are.
type StoreConfig struct {
	Kind       string `config:"kind"`
	Path       string `config:"path"`        // sqlite
	MemoryPath string `config:"memory_path"` // sqlite: outside memory, in another directory
	URL        string `config:"url"`         // postgres; holds a password, never printed
	ListenURL  string `config:"listen_url"`  // postgres, past any pooler: hears other replicas; empty: url
	MaxConns   int    `config:"max_conns"`   // postgres
}

// ListenConfig holds one address for each kind of caller.
type ListenConfig struct {
	Nodes  string `config:"nodes"`  // sidecars: mutual TLS
	People string `config:"people"` // gRPC and JSON over TLS
	Ops    string `config:"ops"`    // plain HTTP: health and metrics
}

// TLSConfig names PEM files.
type TLSConfig struct {
	Certificate string        `config:"certificate"` // of the server
	Key         string        `config:"key"`
	CA          string        `config:"ca"`          // that nodes' certificates are checked against
	NodeCAKey   string        `config:"node_ca_key"` // key of ca, for enrolment; empty: nodes cannot enrol here
	TrustDomain string        `config:"trust_domain"`
	NodeLife    time.Duration `config:"node_certificate_life"`
}

// TimingConfig holds the figures of DESIGN 4 that are the authority's.
type TimingConfig struct {
	MaxTTL     time.Duration `config:"max_ttl"`    // of any session
	LockDelay  time.Duration `config:"lock_delay"` // after an expiry, for sessions as such
	Interval   time.Duration `config:"interval"`   // without a commit for longer: time pause
	Sweep      time.Duration `config:"sweep"`
	SweepGrace time.Duration `config:"sweep_grace"` // before an expiry is written that nobody asks for
}

// PeopleConfig lists who may call.
type PeopleConfig struct {
	Tokens []access.Token `config:"tokens"`
}

// KeepConfig says how long rows are kept.
type KeepConfig struct {
	Commands time.Duration `config:"commands"`
	Ended    time.Duration `config:"ended"`
	Audit    time.Duration `config:"audit"`
}

// LogConfig says what is logged and how.
type LogConfig struct {
	Level  string `config:"level"`
	Format string `config:"format"`
}

// DefaultConfig holds the defaults of DESIGN 4; addresses are loopback.
func DefaultConfig() Config {
	b := lease.DefaultBudget()
	return Config{
		Store:  StoreConfig{Kind: StoreSQLite, MaxConns: 8},
		Listen: ListenConfig{Nodes: "127.0.0.1:7400", People: "127.0.0.1:7401", Ops: "127.0.0.1:7402"},
		TLS:    TLSConfig{TrustDomain: identity.DefaultTrustDomain, NodeLife: 30 * 24 * time.Hour},
		Timing: TimingConfig{
			MaxTTL: time.Minute, LockDelay: b.LockDelay, Interval: b.Interval,
			Sweep: time.Second, SweepGrace: b.TTL,
		},
		Policy:    policy.DefaultConfig(),
		Retention: KeepConfig{Commands: 24 * time.Hour, Ended: 30 * 24 * time.Hour, Audit: 400 * 24 * time.Hour},
		Log:       LogConfig{Level: "info", Format: "json"},
	}
}
