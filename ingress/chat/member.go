package chat

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"weir/ingress/strict"
	"weir/schemas"
)

// maxModels is how many further models a request may name.
const maxModels = 8

const modelForm = "must be the name of a model, of the characters A-Z a-z 0-9 . _ : @ + - in parts with a slash between, maybe behind a ~; GET /models shows those there are"

// named reads which models are asked.
func named(o *schemas.ChatOrder, doc document) error {
	if doc.absent(memberModel) {
		return refuse("/model", "is missing; name a model, GET /models shows those there are")
	}
	var ok bool
	if o.Model, ok = strict.String(doc.values[memberModel]); !ok || !schemas.ValidModel(o.Model) {
		return refuse("/model", modelForm)
	}
	if doc.absent(memberModels) {
		return nil
	}
	var list []jsontext.Value
	if json.Unmarshal(doc.values[memberModels], &list) != nil || len(list) > maxModels {
		return refuse("/models", "must be an array of at most "+strconv.Itoa(maxModels)+" names of models")
	}
	for i, v := range list {
		name, ok := strict.String(v)
		if !ok || !schemas.ValidModel(name) {
			return refuse("/models/"+strconv.Itoa(i), modelForm)
		}
		if name != o.Model && !slices.Contains(o.Models, name) {
			o.Models = append(o.Models, name)
		}
	}
	return nil
}

// said checks the conversation as far as every model wants it.
func said(_ *schemas.ChatOrder, doc document) error {
	if doc.absent(memberMessages) {
		return refuse("/messages", "is missing; send the conversation, at least one message of it")
	}
	dec := decoder(doc.values[memberMessages])
	if dec.PeekKind() != '[' {
		return refuse("/messages", "must be an array of messages")
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	n := 0
	for ; dec.PeekKind() != ']'; n++ {
		if dec.PeekKind() != '{' {
			return refuse("/messages/"+strconv.Itoa(n), "must be an object with a role")
		}
		if err := role(dec, n); err != nil {
			return err
		}
	}
	if n == 0 {
		return refuse("/messages", "is empty; send at least one message")
	}
	return nil
}

// role reads a message for its role.
func role(dec *jsontext.Decoder, n int) error {
	at := "/messages/" + strconv.Itoa(n) + "/role"
	there := false
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if name.String() != "role" {
			if err := dec.SkipValue(); err != nil {
				return err
			}
			continue
		}
		value, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if there = value.Kind() == '"' && value.String() != ""; !there {
			return refuse(at, "must be a string that says who speaks, such as user")
		}
	}
	if !there {
		return refuse(at, "is missing; say who speaks, such as user")
	}
	_, err := dec.ReadToken()
	return err
}

// streamed reads in which form the answer is wanted.
func streamed(o *schemas.ChatOrder, doc document) error {
	var err error
	if o.Stream, err = flag(doc.values[memberStream], "/"+memberStream); err != nil || doc.absent(memberOptions) {
		return err
	}
	var options map[string]jsontext.Value
	if strict.Kind(doc.values[memberOptions]) != '{' || json.Unmarshal(doc.values[memberOptions], &options) != nil {
		return refuse("/"+memberOptions, "must be an object")
	}
	usage, err := flag(options["include_usage"], "/"+memberOptions+"/include_usage")
	o.Usage = usage && o.Stream
	return err
}

// flag reads true or false; what is not there is false.
func flag(v []byte, pointer string) (bool, error) {
	switch strict.Kind(v) {
	case 't':
		return true, nil
	case 'f', 'n', 0:
		return false, nil
	default:
		return false, refuse(pointer, "must be true or false")
	}
}
