// Package confine is what a sandbox policy has become once its paths have been looked up: a Plan of places, which the host
// makes and its warden is given.
//
// A plan may not be changed, and says nothing about how much of it is enforced: that is a Level.
package confine
