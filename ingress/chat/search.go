package chat

import (
	"github.com/go-json-experiment/json/jsontext"
)

const (
	whyName = "a request cannot choose where it goes, with which key, or who is called back: that is the configuration's; leave this member out"
	whyText = "this member is not known here, and holds an address: a request cannot choose where it goes or who is called back; leave it out"
)

// search looks for what a request may not say, wherever it stands outside of the
// conversation.
func search(body []byte) error { return value(decoder(body), top) }

func value(dec *jsontext.Decoder, p place) error {
	if p == talk {
		return dec.SkipValue()
	}
	switch dec.PeekKind() {
	case '{':
		if p == tool {
			p = performer(dec.UnreadBuffer())
		}
		return object(dec, p)
	case '[':
		return array(dec, p)
	default:
		tok, err := dec.ReadToken()
		if err == nil && p == unknown && tok.Kind() == '"' && address(tok.String()) {
			err = refuse(string(dec.StackPointer()), whyText)
		}
		return err
	}
}

func object(dec *jsontext.Decoder, p place) error {
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() != '}' {
		var name jsontext.Token
		if name, err = dec.ReadToken(); err != nil {
			return err
		}
		text := name.String()
		if p.refuses(text, dec.PeekKind()) {
			return refuse(string(dec.StackPointer()), whyName)
		}
		err = value(dec, p.member(text))
	}
	if err == nil {
		_, err = dec.ReadToken()
	}
	return err
}

func array(dec *jsontext.Decoder, p place) error {
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() != ']' {
		err = value(dec, p.item())
	}
	if err == nil {
		_, err = dec.ReadToken()
	}
	return err
}
