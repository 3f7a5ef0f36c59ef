// Thumbnails to choose an image by. The choice is in the address, as #image=3, so it can be sent to someone.
const UNIT = 10000; // outputs come as whole ten-thousandths
let chosenImage = 0;
const onChoice = [];

function choose(number, move = true) {
  if (!(number >= 0 && number < DATA.images.length)) return;
  chosenImage = number;
  if (move) history.replaceState(null, '', `#image=${number}`);
  for (const button of document.querySelectorAll('#picker button')) {
    button.setAttribute('aria-pressed', String(Number(button.dataset.image) === number));
  }
  onChoice.forEach((tell) => tell());
}

function fromAddress() {
  const found = /^#image=(\d+)$/.exec(location.hash);
  return found ? Number(found[1]) : null;
}

function caption(image) {
  return image.answer === image.label
    ? `${NAMES[image.label]}, right`
    : `${NAMES[image.label]}, taken for ${NAMES[image.answer]}`;
}

function picker() {
  byId('picker').append(
    ...DATA.groups.flatMap((group) => [
      node(
        'h3',
        null,
        `${group.title} `,
        node('small', null, `${count(group.total)} ${group.total === 1 ? 'image' : 'images'}: ${group.meaning}`),
      ),
      node(
        'div',
        { class: 'thumbs' },
        group.images.map((number) => {
          const image = DATA.images[number];
          return node(
            'button',
            {
              type: 'button',
              'data-image': number,
              'aria-pressed': 'false',
              title: caption(image),
              onclick: () => choose(number),
            },
            node('img', { class: 'pixels', src: image.picture, alt: caption(image) }),
          );
        }),
      ),
    ]),
  );
  window.addEventListener('hashchange', () => {
    const number = fromAddress();
    if (number !== null) choose(number, false);
  });
}
