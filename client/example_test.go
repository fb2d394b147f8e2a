package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"weir/client"
	"weir/schemas"
)

// A refusal is an error that has the server's problem; its text says what to do.
func Example() {
	weir := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "r-1")
		if r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"title":"Unauthorized","status":401,"code":"UNAUTHORIZED","detail":"a token is needed"}`)
			return
		}
		fmt.Fprint(w, `{"id":"a-1","status":"canceled"}`)
	}))
	defer weir.Close()

	c, err := client.New(weir.URL, "weir1_secret")
	if err != nil {
		fmt.Println(err)
		return
	}
	canceled, err := c.Cancel(context.Background(), "a-1")
	fmt.Println(canceled.Status, err)
	_, err = c.As("").Cancel(context.Background(), "a-1")
	refused, ok := errors.AsType[*client.Error](err)
	fmt.Println(ok, refused.Status, refused.Problem.Code == schemas.Unauthorized)
	// Output:
	// canceled <nil>
	// true 401 true
}
