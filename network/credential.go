package network

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/execbus/execbus/messages"
)

func newKey() (key [32]byte) {
	rand.Read(key[:])
	return key
}

// Credential is what a process shows in its proxy variables, so that its connections are known as its own. Nothing has to be
// forgotten when the process ends.
func (p *Proxy) Credential(process messages.ProcessID) *url.Userinfo {
	name := strconv.Itoa(int(process))
	return url.UserPassword(name, p.password(name))
}

func (p *Proxy) password(name string) string {
	code := hmac.New(sha256.New, p.key[:])
	code.Write([]byte(name))
	return hex.EncodeToString(code.Sum(nil)[:16])
}

// process checks a credential.
func (p *Proxy) process(name, password string) (messages.ProcessID, bool) {
	id, err := strconv.Atoi(name)
	return messages.ProcessID(id), err == nil && hmac.Equal([]byte(password), []byte(p.password(name)))
}

// processOf reads the header Proxy-Authorization; without one it is process 0.
func (p *Proxy) processOf(values []string) (messages.ProcessID, error) {
	if len(values) == 0 {
		return 0, nil
	}
	if len(values) == 1 {
		scheme, encoded, _ := strings.Cut(values[0], " ")
		decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		name, password, _ := strings.Cut(string(decoded), ":")
		if process, ok := p.process(name, password); ok && err == nil && strings.EqualFold(scheme, "Basic") {
			return process, nil
		}
	}
	return 0, &refusal{status: http.StatusForbidden, text: "the credential for the proxy is not one of this proxy; use the proxy variables as they were set"}
}
