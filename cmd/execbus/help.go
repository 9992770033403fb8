package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The help's columns: where the meanings begin, and where they end.
const (
	helpIndent = 24
	helpWidth  = 110
)

// settingsHelp explains the settings of a command.
func settingsHelp(command string) string {
	var b strings.Builder
	b.WriteString("Settings:\n")
	for _, s := range of(command) {
		meaning := s.meaning
		if s.several {
			meaning += "; may be repeated"
		}
		if s.initial != "" {
			meaning += ". By default: " + s.initial
		}
		entry(&b, s.usage(), meaning)
	}
	entry(&b, "--"+configFlag+" FILE", "the file with settings, instead of $"+configVariable+
		" and of execbus/config.toml in your configuration directory; an empty name means none")
	wrap(&b, "", "\nA setting --a-name can also be the environment variable EXECBUS_A_NAME, with colons between several values, and the line "+
		"a_name = \"value\" of the TOML file: a switch is true or false there, and several values are a list [\"…\"]. A flag replaces "+
		"the variable, the variable replaces the file, and the file replaces the default. Flags only: "+strings.Join(onlyFlags(command), ", ")+".")
	return b.String()
}

// usage is how a setting is written on the command line.
func (s setting) usage() string {
	text := "--" + s.name
	if s.value != "" {
		text += " " + s.value
	}
	if s.also != "" {
		text += "[=" + s.also + "]"
	}
	if s.short != "" {
		text += ", -" + s.short + " " + s.value
	}
	if s.negated {
		text += ", --no-" + s.name
	}
	return text
}

// onlyFlags returns the flags of a command that cannot be in the environment or in the file.
func onlyFlags(command string) []string {
	names := []string{"--help"}
	for _, s := range of(command) {
		if s.once {
			names = append(names, "--"+s.name)
		}
	}
	return names
}

// entry writes a name and its meaning beside it.
func entry(b *strings.Builder, name, meaning string) {
	head := "  " + name
	if len(head) > helpIndent-2 {
		b.WriteString(head + "\n")
		head = ""
	}
	fmt.Fprintf(b, "%-*s", helpIndent, head)
	wrap(b, strings.Repeat(" ", helpIndent), meaning)
}

// wrap writes a text in lines. The first one has its indent already.
func wrap(b *strings.Builder, indent, text string) {
	column := utf8.RuneCountInString(indent)
	for i, word := range strings.Split(text, " ") {
		switch length := utf8.RuneCountInString(word); {
		case i == 0:
			column += length
		case column+1+length > helpWidth:
			b.WriteString("\n" + indent)
			column = utf8.RuneCountInString(indent) + length
		default:
			b.WriteString(" ")
			column += 1 + length
		}
		b.WriteString(word)
	}
	b.WriteString("\n")
}
