package common

import _ "example.test/broken/authority/rpc"
