package main

import (
	"encoding/json"
	"os"
	"text/template"
)

type Message struct{ Role, Content, Thinking string }
type Job struct {
	Template   string
	Messages   []Message
	IsThinkSet bool
	Think      bool
}

func main() {
	var jobs []Job
	if err := json.NewDecoder(os.Stdin).Decode(&jobs); err != nil {
		panic(err)
	}
	for _, job := range jobs {
		t := template.Must(template.New("").Parse(job.Template))
		if err := t.Execute(os.Stdout, job); err != nil {
			panic(err)
		}
		os.Stdout.Write([]byte{0})
	}
}
