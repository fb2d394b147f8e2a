package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"weir/schemas"
)

// target is the number of arguments that weir exec takes.
func (f *execFlags) target(cmd *cobra.Command, args []string) error {
	if f.batch == "" {
		return Exactly(2, "a method and a URL, or --batch FILE")(cmd, args)
	}
	for _, name := range []string{"header", "data", "data-binary", "data-urlencode", "form", "key", "response-schema", "upstream-idempotency-key", "include", "output"} {
		if cmd.Flags().Changed(name) {
			return usageError{fmt.Errorf("--%s belongs to one call; with --batch each request in the file has its own", name)}
		}
	}
	return Exactly(0, "no arguments with --batch")(cmd, args)
}

// sendBatch sends the requests of a file, and prints a line for each as its action ends.
func (f *execFlags) sendBatch(ctx context.Context, c *api, header http.Header) error {
	data, err := c.read(f.batch, maxInput)
	if err != nil {
		return err
	}
	requests, err := batchIn(data)
	if err != nil {
		return usageError{fmt.Errorf("--batch: %w", err)}
	}
	header.Set("Accept", schemas.MediaNDJSON)
	resp, err := c.Batch(ctx, header, requests)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return f.show(c, resp)
	}
	worst, items := ExitOK, json.NewDecoder(resp.Body)
	for n := 0; ; n++ {
		var item schemas.BatchItem
		err := items.Decode(&item)
		switch {
		case errors.Is(err, io.EOF) && n == len(requests) && worst == ExitOK:
			return nil
		case errors.Is(err, io.EOF) && n == len(requests):
			return exitError{code: worst}
		case err != nil:
			return fmt.Errorf("the answer was cut off after %d of %d items: %w", n, len(requests), cmp.Or(ctx.Err(), err))
		}
		exit, row := itemRow(item)
		worst = max(worst, exit)
		if err := c.print(item, "%d\t%s\t%s\t%s\t%s", row...); err != nil {
			return err
		}
	}
}

// batchIn are the requests in a file: a list, or one document after another.
func batchIn(data []byte) (requests []json.RawMessage, err error) {
	if data = bytes.TrimSpace(data); bytes.HasPrefix(data, []byte("[")) {
		if err := json.Unmarshal(data, &requests); err != nil {
			return nil, fmt.Errorf("the file is not a JSON list: %w", err)
		}
	} else {
		for each := json.NewDecoder(bytes.NewReader(data)); ; {
			var request json.RawMessage
			err := each.Decode(&request)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("request %d is not JSON: %w", len(requests)+1, err)
			}
			requests = append(requests, request)
		}
	}
	if n := len(requests); n == 0 || n > schemas.MaxBatch {
		return nil, fmt.Errorf("the file has %d requests, and a batch takes 1 to %d; split the file", n, schemas.MaxBatch)
	}
	return requests, nil
}

// itemRow is what is printed of an item, index first, and the exit code that it alone would have.
func itemRow(item schemas.BatchItem) (exit int, row []any) {
	status, code, text := "-", schemas.Code(""), ""
	switch e := item.Error; {
	case item.Result != nil:
		status = strconv.Itoa(item.Result.Status)
	case e != nil:
		exit, code, text = faultExit(e), e.Code, oneLine(e.Message)
		if e.Status != 0 {
			status = strconv.Itoa(e.Status)
		}
	default:
		text = "accepted"
	}
	return exit, []any{item.Index, status, orDash(item.ActionID), orDash(code), orDash(text)}
}
