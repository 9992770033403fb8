package ptyio

// Assurance says how much of a confinement is enforced. A stronger one is greater.
type Assurance int

// The assurances.
const (
	// Unconfined enforces nothing.
	Unconfined Assurance = iota
	// Confined enforces what Landlock and seccomp can say: files, network and signals, but nothing inside of a writable root,
	// and other processes are seen.
	Confined
	// Isolated enforces all of the policy, with namespaces.
	Isolated
)

func (a Assurance) String() string {
	switch a {
	case Unconfined:
		return "none"
	case Confined:
		return "confined"
	case Isolated:
		return "isolated"
	}
	return "unknown"
}
