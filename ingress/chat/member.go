package chat

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

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
	if o.Model = strings.Clone(doc.values[memberModel].Str); !schemas.ValidModel(o.Model) {
		return refuse("/model", modelForm)
	}
	if doc.absent(memberModels) {
		return nil
	}
	list := doc.values[memberModels]
	if !list.IsArray() || len(list.Array()) > maxModels {
		return refuse("/models", "must be an array of at most "+strconv.Itoa(maxModels)+" names of models")
	}
	for i, v := range list.Array() {
		name := strings.Clone(v.Str) // the body's memory is not held for it
		if !schemas.ValidModel(name) {
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
	list := doc.values[memberMessages]
	if !list.IsArray() {
		return refuse("/messages", "must be an array of messages")
	}
	for n, message := range list.All() {
		at := "/messages/" + n.String()
		if !message.IsObject() {
			return refuse(at, "must be an object with a role")
		}
		switch role := message.Get("role"); {
		case !role.Exists():
			return refuse(at+"/role", "is missing; say who speaks, such as user")
		case role.Str == "":
			return refuse(at+"/role", "must be a string that says who speaks, such as user")
		}
	}
	if !list.Get("0").Exists() {
		return refuse("/messages", "is empty; send at least one message")
	}
	return nil
}

// streamed reads in which form the answer is wanted.
func streamed(o *schemas.ChatOrder, doc document) error {
	var err error
	if o.Stream, err = flag(doc.values[memberStream], "/"+memberStream); err != nil || doc.absent(memberOptions) {
		return err
	}
	options := doc.values[memberOptions]
	if !options.IsObject() {
		return refuse("/"+memberOptions, "must be an object")
	}
	usage, err := flag(options.Get("include_usage"), "/"+memberOptions+"/include_usage")
	o.Usage = usage && o.Stream
	return err
}

// flag reads true or false; a missing value is false.
func flag(v gjson.Result, pointer string) (bool, error) {
	if v.Type == gjson.Null || v.IsBool() {
		return v.Bool(), nil
	}
	return false, refuse(pointer, "must be true or false")
}
