package index

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// members read those members of an object that somebody wants, and pass the others
// over. A record may hold a quarter of a megabyte of which thirty bytes are shown.
type members map[string]func(*jsontext.Decoder) error

// errEnough ends the reading of a record: what follows is for nobody here.
var errEnough = errors.New("enough was read")

func enough(*jsontext.Decoder) error { return errEnough }

// errShape says that a value is not of the type that its name promises.
var errShape = errors.New("the record is not of the shape that it should have")

// read reads one object. Anything else in its place is passed over.
func (m members) read(d *jsontext.Decoder) error {
	if d.PeekKind() != '{' {
		return d.SkipValue()
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		take := m[name.String()]
		if take == nil {
			take = (*jsontext.Decoder).SkipValue
		}
		if err := take(d); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

func text(into *string) func(*jsontext.Decoder) error {
	return func(d *jsontext.Decoder) error {
		if d.PeekKind() != '"' {
			return errors.Join(errShape, d.SkipValue())
		}
		token, err := d.ReadToken()
		if err == nil {
			*into = token.String()
		}
		return err
	}
}

func moment(into *time.Time) func(*jsontext.Decoder) error {
	return func(d *jsontext.Decoder) error {
		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		return json.Unmarshal(v, into)
	}
}

func number(into *int) func(*jsontext.Decoder) error {
	return func(d *jsontext.Decoder) error {
		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		*into, err = strconv.Atoi(string(v))
		return err
	}
}
