package secrets

// ParseMapping is parseMapping, for the fuzzer.
func ParseMapping(data []byte) (map[string]Value, error) { return parseMapping(data) }
