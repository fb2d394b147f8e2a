package schemas

import (
	"strconv"
	"time"
)

// The resources that a budget counts.
const (
	BudgetRequests = "requests"
	BudgetTokens   = "tokens"
	BudgetUSD      = "usd"
)

// The properties for whose values a budget has separate accounts.
const (
	PerTenant = "tenant"
	PerToken  = "token"
	PerTask   = "task"
	PerModel  = "model"
)

// BudgetOfTask is the name of the budget that a task itself brings.
const BudgetOfTask = "task"

// SubtokenAccount is the task of the account of a subtoken's own budget, as BudgetView has it.
func SubtokenAccount(task string, n int) string { return task + "/" + strconv.Itoa(n) }

// Budget bounds what is used of models, as the configuration in force describes it. A
// count of 0 is not bounded.
type Budget struct {
	Name string
	// Per says what each has an account of its own, such as each token, or each pair of
	// token and model. Every account is one tenant's.
	Per []string
	// Models are the patterns of the models that it is about; empty: all.
	Models []string
	// Tenants it is about; empty: all.
	Tenants []string
	// Window is after how long what was used is forgotten, all at once; 0: never.
	Window   time.Duration
	Requests int64
	Tokens   int64
	Nanos    int64 // billionths of a US dollar
}

// BudgetView is one account, as GET /v1/budgets shows it.
type BudgetView struct {
	Budget string `json:"budget"`
	// Token, Task and Model are whose it is, as far as the budget tells them apart. The account of a
	// task's subtoken has the number of that after the task, such as ID/3.
	Token string `json:"token,omitempty"`
	Task  string `json:"task,omitempty"`
	Model string `json:"model,omitempty"`
	// Requests, Tokens and USD are absent where the budget does not bound them.
	Requests *BudgetCount `json:"requests,omitempty"`
	Tokens   *BudgetCount `json:"tokens,omitempty"`
	USD      *BudgetCount `json:"usd,omitempty"`
	// Open is how many completions hold a part of it just now.
	Open int `json:"open"`
	// Resets is when the window ends.
	Resets time.Time `json:"resets,omitzero"`
}

// BudgetCount is one count of an account. Of money it is in US dollars.
type BudgetCount struct {
	Limit float64 `json:"limit"`
	Used  float64 `json:"used"`
	// Held is reserved for running completions.
	Held float64 `json:"held"`
}

// RouteBudgets is where the accounts of a tenant are read.
const RouteBudgets = "/v1/budgets"
