package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

func runCompletion(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("completion", out, "Usage: proxima completion bash | zsh | fish | man\n"+
		"Prints the completion script for a shell, or the manual page proxima(1).\n", "")
	words, err := parse(flags, args)
	if err != nil {
		return err
	}
	write := map[string]func(io.Writer, []helpText){"bash": bash, "zsh": zsh, "fish": fish, "man": manual}[strings.Join(words, " ")]
	if write == nil {
		return exit{exitUsage, errors.New("completion takes bash, zsh, fish or man")}
	}
	texts, err := helpTexts(ctx)
	if err == nil {
		write(out, texts)
	}
	return err
}

// helpText is the help of a command, and all flags of it and its verbs.
type helpText struct {
	command
	text  string
	flags []flagLine
}

type flagLine struct{ name, value, usage string }

// flagShape matches what flagSet.help prints of a flag: a word for its value, and what it does, in lines that are indented further.
var flagShape = regexp.MustCompile(`(?m)^  -([A-Za-z-]+)(?: (\S+))? +(\S.*\n(?: {6,}\S.*\n)*)`)

// helpTexts asks every command and verb for its help, so that the generated text agrees with -h.
func helpTexts(ctx context.Context) (texts []helpText, err error) {
	for _, c := range commands() {
		h := helpText{command: c}
		for _, verb := range append([]string{""}, c.verbs...) {
			var b bytes.Buffer
			if err := c.run(ctx, append(strings.Fields(verb), "-h"), &b, io.Discard); err != nil && !errors.Is(err, flag.ErrHelp) {
				return nil, fmt.Errorf("help of %s %s: %w", c.name, verb, err)
			}
			if verb == "" {
				h.text = flagShape.ReplaceAllString(b.String(), "")
			}
			for _, m := range flagShape.FindAllStringSubmatch(b.String(), -1) {
				if !slices.ContainsFunc(h.flags, func(f flagLine) bool { return f.name == m[1] }) {
					h.flags = append(h.flags, flagLine{m[1], m[2], strings.Join(strings.Fields(m[3]), " ")})
				}
			}
		}
		texts = append(texts, h)
	}
	return texts, nil
}

func (h helpText) words() string {
	words := slices.Clone(h.verbs)
	for _, f := range h.flags {
		words = append(words, "-"+f.name)
	}
	return strings.Join(words, " ")
}

func bash(w io.Writer, texts []helpText) {
	fmt.Fprint(w, "# bash completion of proxima\n_proxima() {\n\tlocal words=\n\tcase $COMP_CWORD:${COMP_WORDS[1]} in\n\t1:*) words='")
	for _, h := range texts {
		fmt.Fprint(w, h.name, " ")
	}
	fmt.Fprint(w, "help version' ;;\n")
	for _, h := range texts {
		fmt.Fprintf(w, "\t*:%s) words='%s' ;;\n", h.name, h.words())
	}
	fmt.Fprint(w, "\tesac\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -o default -F _proxima proxima\n")
}

// quoted quotes a text for a shell, without the characters that end a description in zsh.
func quoted(text string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "[", "(", "]", ")", ":", " ").Replace(text) + "'"
}

func zsh(w io.Writer, texts []helpText) {
	fmt.Fprint(w, "#compdef proxima\nif ((CURRENT == 2)); then\n\tlocal -a commands=(\n")
	for _, h := range texts {
		fmt.Fprintf(w, "\t\t%s':'%s\n", h.name, quoted(h.does))
	}
	fmt.Fprint(w, "\t)\n\t_describe command commands\n\treturn\nfi\nlocal command=$words[2]\nshift words\n((CURRENT--))\ncase $command in\n")
	for _, h := range texts {
		fmt.Fprintf(w, "%s)\n\t_arguments", h.name)
		for _, f := range h.flags {
			fmt.Fprintf(w, " \\\n\t\t-%s%s", f.name, "'["+strings.Trim(quoted(f.usage), "'")+"]'")
			if f.value != "" {
				fmt.Fprintf(w, ":%s:_files", quoted(f.value))
			}
		}
		fmt.Fprintf(w, " \\\n\t\t'*:argument:{compadd -- %s; _files}'\n\t;;\n", strings.Join(h.verbs, " "))
	}
	fmt.Fprint(w, "esac\n")
}

func fish(w io.Writer, texts []helpText) {
	for _, h := range texts {
		fmt.Fprintf(w, "complete -c proxima -n __fish_use_subcommand -f -a %s -d %s\n", h.name, quoted(h.does))
		in := "complete -c proxima -n '__fish_seen_subcommand_from " + h.name + "'"
		if len(h.verbs) > 0 {
			fmt.Fprintf(w, "%s -a '%s'\n", in, strings.Join(h.verbs, " "))
		}
		for _, f := range h.flags {
			value := ""
			if f.value != "" {
				value = " -r"
			}
			fmt.Fprintf(w, "%s -o %s%s -d %s\n", in, f.name, value, quoted(f.usage))
		}
	}
}

// roff escapes a text for troff.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	return strings.ReplaceAll(strings.ReplaceAll("\n"+text, "\n.", "\n\\&."), "\n'", "\n\\&'")[1:]
}

func manual(w io.Writer, texts []helpText) {
	fmt.Fprint(w, ".TH PROXIMA 1\n.SH NAME\nproxima \\- decentralised web crawler\n.SH SYNOPSIS\n.B proxima\n.I COMMAND\n[\\fIFLAGS\\fR]\n.SH COMMANDS\n")
	for _, h := range texts {
		fmt.Fprintf(w, ".SS %s \\- %s\n.nf\n%s.fi\n", h.name, roff(h.does), roff(h.text))
		for _, f := range h.flags {
			fmt.Fprintf(w, ".TP\n\\fB\\-%s\\fR \\fI%s\\fR\n%s\n", roff(f.name), roff(f.value), roff(f.usage))
		}
	}
	fmt.Fprint(w, ".SH FILES\n.TP\n/etc/proxima/node.toml\nconfiguration of the service; \\fBproxima config\\fR prints every key\n")
}
