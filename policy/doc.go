// Package policy decides whether a command may run and who is asked.
//
// A plan is made by a pure function of one command and a snapshot of the session's policies, rules and grants.
package policy
