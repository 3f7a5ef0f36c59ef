// Thumbnails to choose an image, and the gallery of the largest errors.
// The choice is part of the address, e.g. #image=3, so that it can be shared.
const UNIT = 10000; // outputs are stored as whole ten-thousandths
let chosenImage = 0;
const onChoice = [];

function choose(number, updateAddress = true) {
  if (!(number >= 0 && number < DATA.images.length)) return;
  chosenImage = number;
  if (updateAddress) history.replaceState(null, '', `#image=${number}`);
  for (const button of document.querySelectorAll('#picker button')) {
    button.setAttribute('aria-pressed', String(Number(button.dataset.image) === number));
  }
  onChoice.forEach((draw) => draw());
}

function imageFromAddress() {
  const found = /^#image=(\d+)$/.exec(location.hash);
  return found ? Number(found[1]) : null;
}

function caption(image) {
  return image.prediction === image.label
    ? `${NAMES[image.label]}, correct`
    : `${NAMES[image.label]}, predicted as ${NAMES[image.prediction]}`;
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
    const number = imageFromAddress();
    if (number !== null) choose(number, false);
  });
}

function gallery() {
  const group = DATA.groups.find(({ key }) => key === 'wrong');
  if (!DATA.evaluation) {
    addText('wrong-lede', NEEDS_IMAGES);
    return;
  }
  if (!group) {
    byId('wrong-lede').append(
      `None: all ${count(DATA.evaluation.images)} ${DATA.evaluation.split} images are classified correctly.`,
    );
    return;
  }
  addText(
    'wrong-lede',
    `Of ${count(group.total)} wrong predictions, those whose true class is furthest behind the predicted class,`,
    'by probability. Choose one to see it layer by layer.',
  );
  byId('gallery').append(
    ...group.images.map((number) => {
      const image = DATA.images[number];
      const go = () => {
        choose(number);
        byId('trace-figure').scrollIntoView({ block: 'center' });
      };
      return node(
        'button',
        { type: 'button', onclick: go },
        node('img', { class: 'pixels', src: image.picture, alt: caption(image) }),
        node('span', { class: 'prediction' }, `predicted ${NAMES[image.prediction]}, ${percent(image.confidence[0], 0)}`),
        node('span', { class: 'truth' }, `true ${NAMES[image.label]}, ${percent(image.confidence[1], 0)}`),
        node('span', { class: 'margin' }, `no. ${image.index}`),
      );
    }),
  );
}
