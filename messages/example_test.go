package messages_test

import (
	"fmt"

	"github.com/execbus/execbus/messages"
)

func ExampleDisplay() {
	fmt.Println(messages.Display([]string{"cat", "invoice\u202efdp.exe", "two words"}))
	// Output: cat $'invoice\u202efdp.exe' 'two words'
}
